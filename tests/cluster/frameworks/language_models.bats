#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What muster-train shares with transformers and tokenizers: weights and tokens. Run by ./check --frameworks
# after tests/cluster/frameworks/install.
load ../setup

python="$MUSTER_BUILD/frameworks/gpus/bin/python3"
setup() { "$python" -c 'import transformers, tokenizers' || skip "transformers is missing: run tests/cluster/frameworks/install, which gets it from PyPI"; }
compare() {
  run "$python" "$REPOSITORY/tests/cluster/frameworks/$1.py" "${@:2}"
  echo "$output"
  [ "$status" = 0 ]
}

@test "transformers: weights both ways give the same logits, loss and greedy text" {
  compare transformers_compare "$MUSTER_BUILD/bin/muster-train" "$MUSTER_BUILD/bin/print_logits" "$BATS_TEST_TMPDIR"
}

@test "tokenizers: the same tokens of random Unicode, every character and long runs, and at least its speed" {
  compare tokenizers_compare "$MUSTER_BUILD/bin/muster-train" "$BATS_TEST_TMPDIR"
  awk '/^speed: / { if ($3 < $7) exit 1; found = 1 } END { exit !found }' <<<"$output"
}
