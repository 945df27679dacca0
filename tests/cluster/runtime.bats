#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# libmuster on a real two-node Slurm: collectives across the nodes, and what is said when a rank is missing or lost.
load setup

setup_file() { lab_up --nodes 2 --gpus 2 --plugin "$(plugin)"; }
teardown_file() { lab_down; }

# ranks N PROGRAM...: N ranks on two nodes.
ranks() { lab exec srun -N2 -n"$1" --mpi=pmix --kill-on-bad-exit=0 "${@:2}"; }
program() { echo "$MUSTER_BUILD/bin/$1"; }
# The runtime's own lines.
said() { grep -E '^failing_ranks: ' <<<"$output"; }

@test "every collective, type and reduction on four ranks over two nodes" {
  run ranks 4 "$(program test_communicator)"
  [ "$status" = 0 ]
  [[ "$output" == *"All tests passed"* ]]
}

# Uneven hosts, and one rank on each.
@test "all-reduces over two nodes of several ranks, of two and one, of one each go through shared memory and leaders" {
  local n
  for n in 4 3 2; do
    MUSTER_LOG=debug run ranks $n "$(program test_communicator)" '*reduc*,16-bit*,two threads*,split*'
    [ "$status" = 0 ]
    [[ "$output" == *"'host', $n ranks on 2 hosts, reduces in shared memory"* ]]
  done
  MUSTER_SHARED_MEMORY=off MUSTER_LOG=debug run ranks 3 "$(program test_communicator)" '*reduc*'
  [ "$status" = 0 ]
  [[ "$output" == *"'host', 3 ranks on 2 hosts, reduces through Open MPI"* ]]
}

@test "a rank that never joins is named, with its host, in one line for the job" {
  run ranks 4 "$(program failing_ranks)" absent
  [ "$status" != 0 ]
  [ "$(said | wc -l)" = 1 ]
  [[ "$(said)" == *"1 of 4 ranks missing"*"rank 3 (host n1)"* ]]
}

@test "a rank that is killed is named in one line for the job" {
  run ranks 4 "$(program failing_ranks)" killed
  [ "$status" != 0 ]
  [ "$(said | wc -l)" = 1 ]
  [[ "$(said)" =~ "rank 3 (host n1), pid "[0-9]+", "$(killed_by_9)", while running" ]]
}

@test "a rank that does not enter a collective is named by those that wait, in one line for the job" {
  run ranks 4 "$(program failing_ranks)" elsewhere
  [ "$status" != 0 ]
  [ "$(said | wc -l)" = 1 ]
  [[ "$(said)" == *all_reduce*"not entered by rank 3 "* ]]
}

@test "mpirun inside a batch job joins too" {
  run lab exec salloc --quiet -N1 -n2 mpirun --allow-run-as-root --oversubscribe -n 2 "$(program failing_ranks)" forgets
  [ "$status" = 0 ]
}

@test "a single task without PMIx runs alone" {
  run lab exec srun -n1 --mpi=none "$(program failing_ranks)" forgets
  [ "$status" = 0 ]
}
