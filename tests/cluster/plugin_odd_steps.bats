#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Steps other than one task per GPU on equal nodes: on a real Slurm of two nodes with four GPUs and eight
# (claimed) CPUs per node, and on nodes with shards and with MIG instances. GPUs and instances are fake:
# device files, and the driver's files about them.
load setup

setup_file() { lab_up --nodes 2 --gpus 4 --cpus 8 --plugin "$(plugin)"; }
teardown_file() { lab_down; }

different() { tr ' ' '\n' | sort -u | wc -l; }
show='for v in SLURM_PROCID RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT MUSTER_GPUS MUSTER_CPUS CUDA_VISIBLE_DEVICES SLURMD_NODENAME; do
  echo "$SLURM_PROCID $v=${!v-unset}"; done'

# other_lab OPTIONS… -- COMMAND: runs a command in a second lab with one node.
other_lab() {
  local name=$MUSTER_LAB-x options=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  "$LAB_COMMAND" --name "$name" up --owner "$$" --nodes 1 --plugin "$(plugin)" "${options[@]}"
  run "$LAB_COMMAND" --name "$name" exec "${@:2}"
  "$LAB_COMMAND" --name "$name" down
}

@test "with several GPUs per task each task has its own, in PCI order" {
  run lab exec srun -N1 -n2 --gpus-per-task=2 --muster=strict bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value MUSTER_GPUS)" = "0000:01:00.0,0000:41:00.0 0000:81:00.0,0000:c1:00.0" ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0,1 2,3" ]
}

@test "several tasks share a GPU when requested" {
  run lab exec srun -N1 -n4 --gres=gpu:2 --muster=strict,tasks-per-gpu=2 bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value MUSTER_GPUS)" = "0000:01:00.0 0000:01:00.0 0000:41:00.0 0000:41:00.0" ]
  run lab exec srun -N1 -n5 --gres=gpu:2 --muster=strict,tasks-per-gpu=2 true
  [ "$status" = 78 ]
}

@test "tasks that share a GPU by Slurm's shards are placed without a request to share" {
  other_lab --gpus 2 --shards 8 -- srun -n2 --gres=shard:2 --muster=strict bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value MUSTER_GPUS)" = "0000:41:00.0 0000:41:00.0" ]
  [ "$(value MUSTER_CPUS | different)" = 2 ]
}

@test "three tasks on two nodes are placed" {
  run lab exec srun -N2 -n3 --gpus-per-task=1 --muster=strict bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value RANK)" = "0 1 2" ]
  [ "$(value LOCAL_RANK)/$(value LOCAL_WORLD_SIZE)" = "0 1 0/2 2 1" ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 1 0" ]
}

@test "more tasks than CPUs (--overcommit) share them, with a warning" {
  run lab exec srun -N1 -n12 -O --muster=strict,report bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value RANK | different)" = 12 ]
  [[ "$output" == *"12 tasks"* ]]
}

@test "tasks on an exclusive node, and a task without GPU, are placed" {
  run lab exec srun -N1 -n2 --exclusive --gpus-per-task=1 --muster=strict bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value CUDA_VISIBLE_DEVICES | different)" = 2 ]
  run lab exec srun -N1 -n1 --exclusive --muster=strict bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = unset ]
}

@test "a heterogeneous job is one world with the master on the first component's node, for any node names" {
  run lab exec srun -w n1 -n1 --gpus-per-task=1 --muster=strict,report bash -c "$show" : -w n0 -n2 --gpus-per-task=1 bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value SLURM_PROCID)" = "0 1 2" ]
  [ "$(value RANK)" = "0 1 2" ]
  [ "$(value WORLD_SIZE)" = "3 3 3" ]
  [ "$(value SLURMD_NODENAME)" = "n1 n0 n0" ]
  [ "$(value LOCAL_RANK)/$(value LOCAL_WORLD_SIZE)" = "0 0 1/1 2 2" ]
  [ "$(value MASTER_ADDR)" = "n1 n1 n1" ]
  [ "$(value MASTER_PORT | different)" = 1 ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 0 1" ]
  # The report also has the ranks of the whole job.
  [[ "$output" == *"n0: ranks 1-2"* && "$output" == *"n1: rank 0"* ]]
}

@test "a heterogeneous job whose first component has no GPUs is placed" {
  run lab exec srun -w n1 -n1 --muster=strict bash -c "$show" : -w n0 -n2 --gpus-per-task=1 bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value RANK)" = "0 1 2" ]
  [ "$(value MASTER_ADDR)" = "n1 n1 n1" ]
  [ "$(value MUSTER_GPUS | wc -w)" = 2 ]
}

@test "a heterogeneous step of an ordinary job is one world; Slurm does not publish rank 0's node, and one line says so" {
  run lab exec salloc --quiet -N2 -n4 --gpus-per-task=1 --muster=strict srun -w n1 -N1 -n1 --gres=gpu:1 bash -c "$show" : -w n0 -N1 -n2 --gres=gpu:2 bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value RANK)/$(value WORLD_SIZE)" = "0 1 2/3 3 3" ]
  [ "$(value MASTER_ADDR)" = "unset unset unset" ]
  [ "$(grep -c 'MASTER_ADDR and MASTER_PORT are not set' <<<"$output")" = 1 ]
}

# The instances' device files that the task may open, as minors.
caps='for f in /dev/nvidia-caps/*; do { : < $f; } 2>&1 | grep -q "No such device" && caps+=${f##*cap},; done; echo "$SLURM_PROCID caps=$caps"'

@test "tasks on MIG instances get cores and NIC of the parent GPU, and see the instances that Slurm gave them" {
  for option in --muster=off --muster=strict; do
    other_lab --gpus 2 --mig 2 --cpus 8 -- srun -n4 --gpus-per-task=1 --gpu-bind=per_task:1 $option bash -c "$show; $caps"
    [ "$status" = 0 ]
    [ "$(value CUDA_VISIBLE_DEVICES)" = "0 0 0 0" ]
    [ "$(value caps)" = "21,22, 30,31, 149,150, 158,159," ]
  done
  # Instances 1 and 2 are parts of minor 0, the GPU at bus 41; 3 and 4 of the one at bus 01.
  [ "$(value MUSTER_GPUS)" = "0000:41:00.0 0000:41:00.0 0000:01:00.0 0000:01:00.0" ]
  [ "$(value MUSTER_CPUS | different)" -ge 2 ]
}

@test "with MIG instances that are not isolated each task still has its own in CUDA_VISIBLE_DEVICES" {
  other_lab --gpus 2 --mig 2 --cpus 8 -- srun -n4 --gpus-per-task=1 --muster=strict bash -c "$show; $caps"
  [ "$status" = 0 ]
  [ "$(value caps)" = "149,150,158,159,21,22,30,31, 149,150,158,159,21,22,30,31, 149,150,158,159,21,22,30,31, 149,150,158,159,21,22,30,31," ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 1 2 3" ]
  [ "$(value MUSTER_GPUS)" = "0000:41:00.0 0000:41:00.0 0000:01:00.0 0000:01:00.0" ]
}

@test "MIG instances that Slurm shows to every task are in rank order, each task's own at its local rank, or only its own" {
  jax='echo "$SLURM_PROCID jax=$JAX_LOCAL_DEVICE_IDS"'
  other_lab --gpus 2 --mig 2 --cpus 8 -- srun -n4 --gres=gpu:4 --muster=strict bash -c "$show; $jax"
  [ "$status" = 0 ]
  # Slurm's instances 0 and 1 are parts of the GPU at bus 41, 2 and 3 of the one at bus 01.
  [ "$(value MUSTER_GPUS)" = "0000:01:00.0 0000:01:00.0 0000:41:00.0 0000:41:00.0" ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "2,3,0,1 2,3,0,1 2,3,0,1 2,3,0,1" ]
  [ "$(value jax)" = "0 1 2 3" ]
  other_lab --gpus 2 --mig 2 --cpus 8 -- srun -n4 --gres=gpu:4 --muster=strict,visible=own bash -c "$show; $jax"
  [ "$(value CUDA_VISIBLE_DEVICES)" = "2 3 0 1" ]
  [ "$(value jax)" = "0 0 0 0" ]
}

@test "a step with three of a node's four MIG instances uses exactly those" {
  other_lab --gpus 2 --mig 2 --cpus 8 -- srun -n3 --gpus-per-task=1 --muster=strict bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value MUSTER_GPUS)" = "0000:41:00.0 0000:41:00.0 0000:01:00.0" ]
}
