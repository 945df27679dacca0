#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Launchers that start their own ranks inside a step: Debian's Open MPI mpirun and torchrun. Muster's
# variables for a step's tasks do not apply to these ranks.
load setup

setup_file() {
  lab_up --nodes 2 --gpus 0 --cpus 4 --no-isolate --plugin "$(plugin)"
  allow_mpirun
}
teardown_file() { lab_down; }

# The variables that may define a rank's number, and mpirun's own.
# shellcheck disable=SC2016 # the ranks expand it
place='for v in RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR TF_CONFIG MUSTER_GPUS MUSTER_CPUS OMP_NUM_THREADS JAX_LOCAL_DEVICE_IDS; do echo "$OMPI_COMM_WORLD_RANK $v=${!v-unset}"; done'
# all_unset NAME…: on each of the ranks.
all_unset() {
  local name
  for name in "$@"; do [[ "$(value "$name")" =~ ^unset( unset)*$ ]] || { echo "$name=$(value "$name")"; return 1; }; done
}
joined() { grep -qE "joined through pmix: $1 ranks on $2 hosts" <<<"$output"; }

@test "inside a step of one task mpirun's ranks are one job" {
  run -0 on_lab srun -N1 -n1 -c2 --mpi=none --muster=strict mpirun --oversubscribe -n 2 bash -c "$place"
  [ "$(value RANK)" = "unset unset" ]
  all_unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR TF_CONFIG
  run -0 on_lab srun -N1 -n1 -c2 --mpi=none --muster=strict "$MPIRUN_WITH_RETRY" mpirun --oversubscribe -n 2 "$MUSTER_BUILD/bin/joining_ranks"
  echo "$output"
  joined 2 1
}

@test "in a job mpirun's ranks have none of its daemons' variables, but those that name networks" {
  for allocation in "salloc --quiet -N2 -n4 --muster=strict" "salloc --quiet -N2 --ntasks-per-node=2 --muster=strict"; do
    # shellcheck disable=SC2086 # words
    run -0 on_lab $allocation mpirun --bind-to none bash -c "$place; echo \"\$OMPI_COMM_WORLD_RANK gloo=\$GLOO_SOCKET_IFNAME\""
    [ "$(value RANK)" = "unset unset unset unset" ]
    all_unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR TF_CONFIG OMP_NUM_THREADS JAX_LOCAL_DEVICE_IDS MUSTER_GPUS MUSTER_CPUS
    [[ "$(value gloo)" == *"eth0 eth0" ]]
    # shellcheck disable=SC2086 # words
    run -0 on_lab $allocation "$MPIRUN_WITH_RETRY" mpirun --bind-to none "$MUSTER_BUILD/bin/joining_ranks"
    echo "$output"
    joined 4 2
  done
}

@test "torchrun's workers are the ranks, with one task per node and alone in a step of one task" {
  # The PyTorch of Debian 13 and testing is built without libuv, but its torchrun requires it.
  /usr/bin/python3 -c 'from torch.distributed import TCPStore; TCPStore("localhost", 0, 1, True)' || skip "this PyTorch's own store does not start"
  # With Python 3.11 Debian 12's torchrun fails without options for standard output and error.
  torchrun=(/usr/bin/python3 -m torch.distributed.run -r 2 -t 1 --log_dir "$BATS_TEST_TMPDIR")
  script=$REPOSITORY/tests/cluster/frameworks/torch_all_reduce.py
  run -0 on_lab salloc --quiet -N2 --ntasks-per-node=1 -c2 --muster=strict srun -c2 "${torchrun[@]}" --nnodes=2 --nproc_per_node=2 \
    --rdzv_id=7 --rdzv_backend=c10d --rdzv_endpoint=n0:29500 "$script"
  echo "$output"
  for rank in 0 1 2 3; do grep -qE "torch [^ ]+ rank $rank of 4 sum 6$" <<<"$output"; done
  run -0 on_lab srun -N1 -n1 -c2 --muster=strict "${torchrun[@]}" --standalone --nproc_per_node=2 "$script"
  echo "$output"
  for rank in 0 1; do grep -qE "torch [^ ]+ rank $rank of 2 sum 1$" <<<"$output"; done
}
