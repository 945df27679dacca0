#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# TensorFlow, JAX and Horovod start from what Muster sets, with nothing in their scripts. Run by ./check --frameworks after
# tests/cluster/frameworks/install.
load ../setup
load ../templates/submit

setup_file() { lab_up --nodes 2 --gpus 2 --no-isolate --plugin "$(plugin)"; }
teardown_file() { lab_down; }

# ranks_of NAME ARGUMENTS…: runs a step over two nodes of two tasks, which must give the sum of the ranks on each of them.
ranks_of() {
  run on_lab srun -N2 -n4 --muster "${@:2}"
  echo "$output"
  [ "$status" = 0 ]
  for rank in 0 1 2 3; do grep -qE "^$1 .*rank $rank of 4 sum 6$" <<<"$output"; done
}
python() { printf '%s/frameworks/%s/bin/python3' "$MUSTER_BUILD" "$1"; }
script() { printf '%s/tests/cluster/frameworks/%s.py' "$REPOSITORY" "$1"; }

@test "TensorFlow: MultiWorkerMirroredStrategy, also with ranks dealt to the nodes in turn" {
  ranks_of tensorflow "$(python pypi)" "$(script tensorflow_workers)"
  ranks_of tensorflow --distribution=cyclic "$(python pypi)" "$(script tensorflow_workers)"
}

@test "JAX: jax.distributed.initialize() without arguments" {
  ranks_of jax "$(python pypi)" "$(script jax_processes)"
}

@test "JAX: a process is given the devices that CUDA shows it, where Slurm's local rank would name one that it has not" {
  run on_lab srun -N1 -n2 --gpus-per-task=1 --muster "$(python pypi)" -c '
import os, jax
from jax._src.xla_bridge import CUDA_VISIBLE_DEVICES
jax.distributed.initialize()
print("rank", jax.process_index(), "devices", CUDA_VISIBLE_DEVICES.value, "shown", len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")), flush=True)'
  echo "$output"
  [ "$status" = 0 ]
  for rank in 0 1; do grep -qx "rank $rank devices 0 shown 1" <<<"$output"; done
}

@test "Horovod: its MPI controller under srun --mpi=pmix" {
  ranks_of 'horovod [^ ]+ \(mpi\)' --mpi=pmix "$(python horovod)" "$(script horovod_allreduce)"
}

@test "the templates tensorflow, jax and horovod start plain scripts of theirs" {
  for framework in tensorflow:pypi:tensorflow_workers jax:pypi:jax_processes horovod:horovod:horovod_allreduce; do
    IFS=: read -r name environment program <<<"$framework"
    PYTHON=$(python "$environment") run_template "$name" "$(script "$program")"
    for rank in 0 1 2 3; do grep -qE "^$name .*rank $rank of 4 sum 6$" "$folder/job.log"; done
  done
}
