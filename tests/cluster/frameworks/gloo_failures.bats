#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# How a job with gloo ends after each fault. Run by ./check --frameworks after tests/cluster/frameworks/install.
load ../setup

python=$MUSTER_BUILD/frameworks/gpus/bin/python3
setup() { [ -x "$python" ] || skip "$python is missing: run tests/cluster/frameworks/install"; }

@test "gloo: each fault ends the other ranks, with the line and the exit code" {
  MUSTER_LIBRARY="$MUSTER_BUILD/lib/libmuster.so.0" PYTHONPATH="$REPOSITORY/runtime/python" "$python" -B \
    "$REPOSITORY/tests/cluster/frameworks/gloo_failures.py" 1
}
