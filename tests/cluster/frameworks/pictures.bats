#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Tar shards of pictures, beside webdataset; trained weights in torchvision. Run by ./check --frameworks after tests/cluster/frameworks/install.
load ../setup

python="$MUSTER_BUILD/frameworks/gpus/bin/python3"
setup() { "$python" -c 'import webdataset, torchvision' || skip "webdataset or torchvision is missing: run tests/cluster/frameworks/install, which gets them from PyPI"; }

@test "webdataset: the same samples of shards that it, GNU tar's and pax's formats have written" {
  run "$python" "$REPOSITORY/tests/cluster/frameworks/webdataset_compare.py" "$MUSTER_BUILD/bin/print_shard" "$BATS_TEST_TMPDIR"
  echo "$output"
  [ "$status" = 0 ]
}

@test "torchvision: its resnet50 takes the exported weights, and has the same loss" {
  run "$python" "$REPOSITORY/tests/cluster/frameworks/torchvision_compare.py" "$MUSTER_BUILD/bin/muster-train"
  echo "$output"
  [ "$status" = 0 ]
}
