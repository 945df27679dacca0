#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# PyTorch with gloo on Muster's control plane. Run by ./check --frameworks after tests/cluster/frameworks/install.
load ../setup

python=$MUSTER_BUILD/frameworks/gpus/bin/python3
setup() { [ -x "$python" ] || skip "$python is missing: run tests/cluster/frameworks/install"; }

# train ARGUMENTS…: three ranks run torch_muster.py, with PyTorch's rendezvous at one port and Muster's at the next.
train() {
  run env ON_RANKS_TIMEOUT=100 MUSTER_LIBRARY="$MUSTER_BUILD/lib/libmuster.so.0" PYTHONPATH="$REPOSITORY/runtime/python" \
    "$REPOSITORY/tests/gpu/on_ranks" 3 "$python" -B "$REPOSITORY/tests/cluster/frameworks/torch_muster.py" "$@"
  # on_ranks reports the killed rank.
  output=$(sed -E '/on_ranks: line [0-9]+: .* Killed /d' <<<"$output")
  echo "$output"
}
# loses_rank_1 HOW ARGUMENTS…: the other ranks end with 75, and print one line.
loses_rank_1() {
  train "${@:2}"
  [ "$status" = 75 ]
  grep -qxE "(.*/torch_muster.py|muster): rank 1 \(host .*\), pid [0-9]+, $1, while running, last call join" <<<"$output"
  [ "$(wc -l <<<"$output")" = 1 ]
}

@test "gloo: groups, DistributedDataParallel and every method of the store, over muster://" {
  train groups
  [ "$status" = 0 ]
  for rank in 0 1 2; do grep -q "rank $rank of 3 used all" <<<"$output"; done
}

@test "gloo: ranks that wait for a lost one in init_process_group() name it" { loses_rank_1 'was killed by signal 9 \(Killed\)' absent; }

@test "gloo: a watched job over env:// ends when a rank is killed" { loses_rank_1 'was killed by signal 9 \(Killed\)' kill env; }

@test "gloo: a watched job over env:// ends when a rank is stopped" { loses_rank_1 'is stopped, silent for 2 s' stop env; }
