#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Debian's PyTorch starts from Muster's variables, with nothing about it in the script. The other frameworks:
# ./check --frameworks.
load setup

setup_file() { lab_up --nodes 2 --gpus 2 --no-isolate --plugin "$(plugin)"; }
teardown_file() { lab_down; }

@test "torch.distributed runs over two nodes with two tasks each by env://, with nothing about it in the script" {
  run on_lab srun -N2 -n4 --muster /usr/bin/python3 "$REPOSITORY/tests/cluster/frameworks/torch_all_reduce.py"
  echo "$output"
  [ "$status" = 0 ]
  for rank in 0 1 2 3; do grep -qE "^torch [^ ]+ rank $rank of 4 sum 6$" <<<"$output"; done
}
