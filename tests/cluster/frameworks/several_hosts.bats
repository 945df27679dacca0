#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# JAX, torchrun, Lightning and accelerate over two nodes, each with its own host name, network and processes.
# Run by ./check --frameworks after tests/cluster/frameworks/install.
load ../setup

jax=$MUSTER_BUILD/frameworks/pypi/bin/python3
torch=$MUSTER_BUILD/frameworks/gpus/bin/python3
programs=$REPOSITORY/tests/cluster/frameworks

setup_file() {
  lab_up --nodes 2 --gpus 0 --plugin "$(plugin)"
  [ -x "$torch" ] || return 0
  # torchrun finds the backend by the metadata that pip installs.
  cp -r "$REPOSITORY/runtime/python" "$BATS_FILE_TMPDIR/source"
  "$torch" -m pip install --quiet --no-deps --no-index --no-build-isolation --target "$BATS_FILE_TMPDIR/site" "$BATS_FILE_TMPDIR/source"
}
teardown_file() { lab_down; }
needs() { [ -x "$1" ] || skip "$1 is missing: run tests/cluster/frameworks/install, which gets it from PyPI"; }

# step OPTIONS… PROGRAM…: a step over both nodes, whose ranks end by themselves. Without PMIx, which ends a step in which a
# process is killed.
step() {
  run on_lab env MUSTER_LIBRARY="$MUSTER_BUILD/lib/libmuster.so.0" JAX_PLATFORMS=cpu OMP_NUM_THREADS=1 \
    srun --overcommit --kill-on-bad-exit=0 --mpi=none -N2 --muster "$@"
  echo "$output"
}
jax_step() { PYTHONPATH=$REPOSITORY/runtime/python step --ntasks-per-node=2 "$jax" -B "$programs/jax_muster.py" "$@"; }
# torchrun_step ARGUMENTS…: an agent on each node, each with two workers.
torchrun_step() {
  PYTHONPATH=$BATS_FILE_TMPDIR/site step --ntasks-per-node=1 "$torch" -m torch.distributed.run --rdzv-backend=muster --nnodes=2 \
    --nproc-per-node=2 "$@"
}
# names_lost PROGRAM RANK NODE HOW: one rank prints one line about the killed one, and those of n1 end with 75.
names_lost() {
  [ "$(grep -cE "$1: rank $2 \(host $3\), pid [0-9]+, $4, while running, last call join" <<<"$output")" = 1 ]
  [[ $output != *Traceback* ]]
  grep -qE 'n1: tasks? .*: Exited with exit code 75' <<<"$output"
}
# A host's first process holds the connection of all its ranks. Seen from another host, its end looks like a broken network.
broken='ended or broke its connection without leaving the job \(.*\)'

@test "JAX: processes on two hosts find each other and compute" {
  needs "$jax"
  jax_step end 0
  [ "$status" = 0 ]
  for rank in 0 1 2 3; do grep -qx "rank $rank of 4 sum 4" <<<"$output"; done
}

@test "JAX: the processes of both hosts name one that is killed" {
  needs "$jax"
  jax_step kill 3
  names_lost '(.*/jax_muster.py|muster)' 3 n1 "$(killed_by_9)"
}

@test "JAX: the processes of the other host name the killed coordinator" {
  needs "$jax"
  jax_step kill 0
  names_lost '(.*/jax_muster.py|muster)' 0 n0 "($(killed_by_9)|$broken)"
}

@test "torchrun: agents on two hosts find each other, and restart their workers together" {
  needs "$torch"
  torchrun_step "$programs/torchrun_workers.py" end
  [ "$status" = 0 ]
  [ "$(grep -xE 'rank [0-3] of 4 sum 4' <<<"$output" | sort -u | wc -l)" = 4 ]
  torchrun_step --max-restarts=1 "$programs/torchrun_workers.py" restart "$BATS_TEST_TMPDIR/failed"
  [ "$status" = 0 ]
  [ -e "$BATS_TEST_TMPDIR/failed" ]
  [ "$(grep -xE 'rank [0-3] of 4 sum 4' <<<"$output" | sort -u | wc -l)" = 4 ]
}

@test "torchrun: the agent of the other host names a killed one, and ends its workers" {
  needs "$torch"
  torchrun_step "$programs/torchrun_workers.py" agent
  names_lost /run.py 0 n0 "$broken"
  [ -z "$(on_node n1 pgrep -f torchrun_workers.py)" ]
}

@test "Lightning and accelerate: ranks on two hosts start from the variables of muster.torch.set_environment()" {
  needs "$torch"
  for library in lightning accelerate; do
    PYTHONPATH=$REPOSITORY/runtime/python step --ntasks-per-node=2 "$torch" -B "$programs/environment_muster.py" $library
    [ "$status" = 0 ]
    for rank in 0 1 2 3; do grep -qx "rank $rank of 4 sum 6" <<<"$output"; done
  done
}

@test "PyTorch, JAX, Lightning and accelerate: each fault on two hosts ends the other ranks, with the line and the exit code" {
  needs "$jax"
  needs "$torch"
  "$REPOSITORY/tests/bench/framework_losses" --runs 1
}
