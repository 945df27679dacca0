#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Plain scripts of PyTorch, Lightning, accelerate, DeepSpeed and submitit, on PyPI's PyTorch with CUDA, select
# their GPUs by the libraries' own code: each rank has its own, or the script behaves as without Muster. There
# is no GPU: the libraries use a fake driver and NVML (../fake_driver.c) and a fake CUDA runtime
# (../fake_cudart.c) on host memory, whose kernels do nothing. So the ranks sum over Gloo, and NCCL is not
# tested. Horovod is real, with a PyTorch without CUDA. Run by ./check --frameworks after
# tests/cluster/frameworks/install.
load ../setup

setup_file() {
  lab_up --nodes 2 --gpus 4 --cpus 8 --isolate --plugin "$(plugin)"
  double=$BATS_FILE_TMPDIR/double
  export double
  mkdir "$double"
  cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$double/libcuda.so.1" "$REPOSITORY/tests/cluster/fake_driver.c"
  ln -s libcuda.so.1 "$double/libnvidia-ml.so.1"
  # CUDA's own headers, from the same packages as the replaced library.
  packages=$(echo "$MUSTER_BUILD"/frameworks/gpus/lib/python3*/site-packages)
  [ ! -d "$packages" ] || cc -shared -fPIC -I"$packages/nvidia/cu13/include" -I"$packages/triton/backends/nvidia/include" \
    -o "$double/libcudart.so" "$REPOSITORY/tests/cluster/fake_cudart.c" "$double/libcuda.so.1"
}
teardown_file() { lab_down; }

# in_environment NAME: sets $bin to the folder of its programs and $python to its Python on the fakes.
in_environment() {
  bin=$MUSTER_BUILD/frameworks/$1/bin
  [ -x "$bin/python3" ] || skip "$bin is missing: run tests/cluster/frameworks/install, which gets it from PyPI"
  python=(env LD_LIBRARY_PATH="$double" "${@:2}" "$bin/python3")
}
setup() { in_environment gpus LD_PRELOAD="$double/libcudart.so"; }
script() { printf '%s/tests/cluster/frameworks/%s.py' "$REPOSITORY" "$1"; }

# job COMMAND…: runs it on the lab. Once a process that had done all its work ended by std::terminate, as
# PyTorch's processes do if Gloo's threads outlive Python (pytorch/pytorch issue 190489). Such a job is run
# again once.
job() {
  local attempt
  for attempt in 1 2; do
    run on_lab "$@"
    echo "$output"
    [[ $status != 0 && $output == *"terminate called without an active exception"* ]] || break
  done
}
# step OPTIONS… -- SCRIPT ARGUMENTS…: runs it as a step.
step() {
  local options=()
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  job srun --kill-on-bad-exit=1 "${options[@]}" "${python[@]}" "$(script "$2")" "${@:3}"
}
# summed RANKS: each rank ran to its end and summed with the others.
summed() {
  [ "$status" = 0 ]
  [ "$(value sum | tr ' ' '\n' | grep -cx "$(($1 * ($1 - 1) / 2))")" = "$1" ]
}
# apart NODES: no two ranks of a node chose the same GPU.
apart() {
  local chosen node each
  read -ra chosen <<<"$(value gpus)"
  each=$((${#chosen[@]} / $1))
  for ((node = 0; node < $1; ++node)); do
    [ -z "$(tr ', ' '\n' <<<"${chosen[*]:node * each:each}" | sort | uniq -d)" ]
  done
}
# own NODES RANKS: each rank chose the GPUs that Muster gave it.
own() {
  summed "$2"
  apart "$1"
  [ "$(value gpus)" = "$(value own)" ]
}
one=(-N1 -n2 --ntasks-per-node=2) two=(-N2 -n4 --ntasks-per-node=2)

@test "PyTorch: torch.cuda.set_device(LOCAL_RANK) and DistributedDataParallel, with --gres, on one node and two" {
  step "${one[@]}" --gres=gpu:2 --muster=strict -- torch_set_device
  own 1 2
  step "${two[@]}" --gres=gpu:2 --muster=strict -- torch_set_device
  own 2 4
}

@test "PyTorch: a model on GPUs 2*LOCAL_RANK and 2*LOCAL_RANK+1" {
  step "${two[@]}" --gres=gpu:4 --muster=strict -- torch_set_device 2
  own 2 4
}

@test "PyTorch: with --gpus-per-task GPU number LOCAL_RANK does not exist, as without Muster; visible=node shows it" {
  wrapper='export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS MASTER_ADDR=n0 MASTER_PORT=29400; exec "$@"'
  for muster in off strict; do
    run on_lab srun "${one[@]}" --gpus-per-task=1 --muster=$muster --kill-on-bad-exit=1 sh -c "$wrapper" - "${python[@]}" "$(script torch_set_device)"
    echo "$output"
    [ "$status" != 0 ]
    [[ "$output" == *"invalid device ordinal"* ]]
  done
  step "${two[@]}" --gpus-per-task=1 --muster=strict,visible=node -- torch_set_device
  own 2 4
  step "${two[@]}" --gpus-per-task=2 --muster=strict,visible=node -- torch_set_device 2
  own 2 4
}

@test "Lightning: Trainer(devices=2, num_nodes=N), with --gres, on one node and two" {
  step "${one[@]}" --gres=gpu:2 --muster=strict -- lightning_fit 2 1
  own 1 2
  step "${two[@]}" --gres=gpu:2 --muster=strict -- lightning_fit 2 2
  own 2 4
}

@test "Lightning: with --gpus-per-task there are fewer devices than it needs, as without Muster; visible=node shows them" {
  for muster in off strict; do
    step "${one[@]}" --gpus-per-task=1 --muster=$muster -- lightning_fit 2 1
    [ "$status" != 0 ]
    [[ "$output" == *MisconfigurationException* ]]
  done
  step "${two[@]}" --gpus-per-task=1 --muster=strict,visible=node -- lightning_fit 2 2
  own 2 4
}

@test "accelerate: Accelerator(), with --gres and with --gpus-per-task, on one node and two" {
  for option in --gres=gpu:2 --gpus-per-task=1; do
    step "${one[@]}" $option --muster=strict -- accelerate_loop
    own 1 2
    step "${two[@]}" $option --muster=strict -- accelerate_loop
    own 2 4
  done
}

@test "DeepSpeed: initialize() with ZeRO, which queries NVML about the GPU, with --gres and with visible=node" {
  step "${one[@]}" --gres=gpu:2 --muster=strict -- deepspeed_engine
  own 1 2
  step "${two[@]}" --gres=gpu:2 --muster=strict -- deepspeed_engine
  own 2 4
  step "${two[@]}" --gpus-per-task=1 --muster=strict,visible=node -- deepspeed_engine
  own 2 4
}

@test "DeepSpeed: its launcher in a step of one task, with and without Muster" {
  for option in --gres=gpu:2 --gpus-per-task=2; do
    for muster in off strict; do
      job srun -N1 -n1 $option --muster=$muster "${python[@]}" "$bin/deepspeed" "$(script deepspeed_engine)"
      summed 2
      apart 1
    done
  done
}

@test "DeepSpeed: its launcher starts srun by itself" {
  printf 'n0 slots=2\nn1 slots=2\n' >"$BATS_TEST_TMPDIR/hosts"
  job salloc --quiet "${two[@]}" --gres=gpu:2 --muster=strict "${python[@]}" "$bin/deepspeed" --hostfile "$BATS_TEST_TMPDIR/hosts" \
    --launcher slurm --master_addr n0 --no_ssh_check "$(script deepspeed_engine)"
  own 2 4
}

@test "torchrun with one task per node: each worker has its own GPU" {
  for option in --gres=gpu:2 --gpus-per-task=2; do
    job srun -N2 -n2 --ntasks-per-node=1 --kill-on-bad-exit=1 $option --muster=strict "${python[@]}" -m torch.distributed.run --nnodes=2 --nproc_per_node=gpu \
      --rdzv_id=7 --rdzv_backend=c10d --rdzv_endpoint=n0:29500 "$(script torch_set_device)"
    summed 4
    apart 2
  done
}

@test "accelerate launch in a step of one task: each process has its own GPU" {
  job srun -N1 -n1 --gres=gpu:2 --muster=strict "${python[@]}" "$bin/accelerate" launch --multi_gpu --num_processes 2 "$(script accelerate_loop)"
  summed 2
  apart 1
}

@test "Horovod: gpus[hvd.local_rank()], with --gres and with visible=node, on one node and two" {
  in_environment horovod
  step "${one[@]}" --gres=gpu:2 --mpi=pmix --muster=strict -- horovod_set_device
  own 1 2
  step "${two[@]}" --gres=gpu:2 --mpi=pmix --muster=strict -- horovod_set_device
  own 2 4
  step "${two[@]}" --gpus-per-task=1 --mpi=pmix --muster=strict,visible=node -- horovod_set_device
  own 2 4
}

@test "Horovod under mpirun, in a job and inside a step of one task: each rank has its own GPU" {
  in_environment horovod
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  job salloc --quiet "${two[@]}" --gres=gpu:2 --muster=strict mpirun "${python[@]}" "$(script horovod_set_device)"
  summed 4
  apart 2
  job srun -N1 -n1 -c2 --gres=gpu:2 --mpi=none --muster=strict mpirun -n 2 "${python[@]}" "$(script horovod_set_device)"
  summed 2
  apart 1
}

@test "submitit: the GPU that its export leaves each rank, with ranks=off" {
  mkdir "$BATS_TEST_TMPDIR/submitit"
  job "${python[@]}" "$(script submitit_gpu_job)" "$BATS_TEST_TMPDIR/submitit" ranks=off
  own 2 4
}
