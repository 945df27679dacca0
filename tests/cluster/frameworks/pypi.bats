#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# TensorFlow, JAX and Horovod start from Muster's variables, with nothing about it in their scripts; also jobs
# that prterun starts. Run by ./check --frameworks after tests/cluster/frameworks/install.
load ../setup
load ../templates/submit

setup_file() { lab_up --nodes 2 --gpus 2 --no-isolate --plugin "$(plugin)"; }
teardown_file() { lab_down; }

# ranks_of NAME ARGUMENTS…: runs a step over two nodes with two tasks each, which must print the sum of the
# ranks on each rank.
ranks_of() {
  run on_lab srun -N2 -n4 --muster "${@:2}"
  echo "$output"
  [ "$status" = 0 ]
  for rank in 0 1 2 3; do grep -qE "^$1 .*rank $rank of 4 sum 6$" <<<"$output"; done
}
# needs FILE…: skips the test if tests/cluster/frameworks/install has not installed them.
needs() {
  local file
  for file in "$@"; do [ -x "$file" ] || skip "$file is missing: run tests/cluster/frameworks/install, which gets it from PyPI"; done
}
python() { printf '%s/frameworks/%s/bin/python3' "$MUSTER_BUILD" "$1"; }
script() { printf '%s/tests/cluster/frameworks/%s.py' "$REPOSITORY" "$1"; }

@test "TensorFlow: MultiWorkerMirroredStrategy, also with a cyclic distribution of ranks" {
  needs "$(python pypi)"
  ranks_of tensorflow "$(python pypi)" "$(script tensorflow_workers)"
  ranks_of tensorflow --distribution=cyclic "$(python pypi)" "$(script tensorflow_workers)"
}

@test "JAX: jax.distributed.initialize() without arguments" {
  needs "$(python pypi)"
  ranks_of jax "$(python pypi)" "$(script jax_processes)"
}

@test "JAX: a process gets the devices that CUDA shows it, not the one of Slurm's local rank, which it may not have" {
  needs "$(python pypi)"
  program='
import os, jax
from jax._src.xla_bridge import CUDA_VISIBLE_DEVICES
jax.distributed.initialize()
print("rank", jax.process_index(), "devices", CUDA_VISIBLE_DEVICES.value, "shown", len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")), flush=True)'
  run on_lab srun -N1 -n2 --gpus-per-task=1 --muster "$(python pypi)" -c "$program"
  echo "$output"
  [ "$status" = 0 ]
  for rank in 0 1; do grep -qx "rank $rank devices 0 shown 1" <<<"$output"; done
  # All GPUs of the step; its own is at the index of its local rank.
  run on_lab srun -N1 -n2 --gres=gpu:2 --muster "$(python pypi)" -c "$program"
  echo "$output"
  [ "$status" = 0 ]
  for rank in 0 1; do grep -qx "rank $rank devices $rank shown 2" <<<"$output"; done
}

@test "Horovod: its MPI controller under srun --mpi=pmix" {
  needs "$(python horovod)"
  ranks_of 'horovod [^ ]+ \(mpi\)' --mpi=pmix "$(python horovod)" "$(script horovod_allreduce)"
}

@test "submitit: its own export of ranks and addresses, with ranks=off" {
  needs "$(python horovod)"
  mkdir "$BATS_TEST_TMPDIR/submitit"
  run on_lab "$(python horovod)" "$(script submitit_job)" "$BATS_TEST_TMPDIR/submitit" ranks=off
  echo "$output"
  [ "$status" = 0 ]
  for rank in 0 1 2 3; do grep -qE "^submitit [^ ]+ rank $rank of 4 sum 6$" <<<"$output"; done
}

@test "the templates tensorflow, jax and horovod start plain scripts of these frameworks" {
  needs "$(python pypi)" "$(python horovod)"
  for framework in tensorflow:pypi:tensorflow_workers jax:pypi:jax_processes horovod:horovod:horovod_allreduce; do
    IFS=: read -r name environment program <<<"$framework"
    PYTHON=$(python "$environment") run_template "$name" "$(script "$program")"
    for rank in 0 1 2 3; do grep -qE "^$name .*rank $rank of 4 sum 6$" "$folder/job.log"; done
  done
}

# recoverable: prterun does not end the other ranks when one is lost.
prterun=$MUSTER_BUILD/frameworks/prrte/bin/prterun
by_prterun() { timeout 60 "$prterun" --allow-run-as-root --runtime-options recoverable --map-by :OVERSUBSCRIBE -n 4 "$@"; }

@test "prterun: ranks join through its PMIx" {
  needs "$prterun"
  run by_prterun "$MUSTER_BUILD/bin/joining_ranks"
  echo "$output"
  [ "$status" = 0 ]
  grep -q 'joined through pmix: 4 ranks on 1 hosts' <<<"$output"
}

@test "prterun: the other ranks name a killed rank, and each ends by itself" {
  needs "$prterun"
  # One file per line: prterun does not forward all output that is written right before the end.
  # shellcheck disable=SC2016
  by_prterun sh -c '"$0" "$1" steady barrier 2>>"$2.said"; echo "rank $PMIX_RANK ended $?" >>"$2.ended"' \
    "$MUSTER_BUILD/bin/surviving_ranks" "prterun.$$" "$BATS_TEST_TMPDIR/job" >"$BATS_TEST_TMPDIR/log" 2>&1 &
  local job=$!
  wait_until 'grep -aq steady "$BATS_TEST_TMPDIR/log"'
  # Kill its shell too, which would otherwise end normally.
  pgrep -f "bin/surviving_ranks prterun.$$ " | xargs -I{} grep -azl '^PMIX_RANK=3$' /proc/{}/environ | cut -d/ -f3 | xargs kill -KILL
  wait "$job" || true
  cat "$BATS_TEST_TMPDIR"/job.*
  grep -qE '^muster: rank 3 .*pid [0-9]+, was killed by signal 9 \(Killed\)' "$BATS_TEST_TMPDIR/job.said"
  [ "$(sort "$BATS_TEST_TMPDIR/job.ended")" = "$(printf 'rank %d ended 75\n' 0 1 2)" ]
}

@test "prterun: when it belongs to another Open MPI, the host communicator names the one that it needs" {
  needs "$prterun"
  run by_prterun "$MUSTER_BUILD/bin/failing_ranks" nothing
  tr -d '\0' <<<"$output"
  [ "$status" = 78 ]
  grep -aqE 'of 4 as rank .* of 1: start the program with srun --mpi=pmix or with the mpirun of the Open MPI' <<<"$output"
}
