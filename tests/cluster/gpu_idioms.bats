#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Scripts select their GPUs in the idiom of their framework (frameworks/gpu_idioms.py), on a driver that
# counts devices like CUDA's: an idiom that works without Muster works with it, and gets its own GPU. The
# frameworks themselves: frameworks/gpu_scripts.bats.
load setup

setup_file() {
  lab_up --nodes 2 --gpus 4 --cpus 8 --isolate --plugin "$(plugin)"
  mkdir "$BATS_FILE_TMPDIR/driver"
  cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$BATS_FILE_TMPDIR/driver/libcuda.so.1" "$REPOSITORY/tests/cluster/fake_driver.c"
  export LD_LIBRARY_PATH=$BATS_FILE_TMPDIR/driver
}
teardown_file() { lab_down; }

# chosen IDIOM EACH OPTIONS…: runs it as a step; sets $gpus to each rank's choice and $own to Muster's.
chosen() {
  run on_lab srun --kill-on-bad-exit=0 "${@:3}" /usr/bin/python3 "$REPOSITORY/tests/cluster/frameworks/gpu_idioms.py" "$1" "$2"
  [ "$status" = 0 ] || { echo "$output"; return 1; }
  gpus=$(value gpus) own=$(value own)
}
# chooses_own NODES TASKS EACH IDIOM… -- OPTIONS…: each rank chooses its own GPUs, and no two ranks of a node
# the same.
chooses_own() {
  local nodes=$1 tasks=$2 each=$3 idioms=() idiom node
  shift 3
  while [[ $1 != -- ]]; do idioms+=("$1") && shift; done
  shift
  for idiom in "${idioms[@]}"; do
    chosen "$idiom" "$each" -N"$nodes" --ntasks-per-node="$tasks" "$@"
    echo "$idiom $*: $gpus"
    [ "$gpus" = "$own" ]
    for ((node = 0; node < nodes; ++node)); do
      [ "$(cut -d' ' -f$((node * tasks + 1))-$((node * tasks + tasks)) <<<"$gpus" | tr -s ', ' '[\n*]' | sort -u | wc -l)" = $((tasks * each)) ]
    done
  done
}
all=(horovod torch torch_modulo lightning jax)

@test "with --gres or --gpus-per-node and one GPU per task, every idiom that indexes by local rank gets its own GPU, on one node and two" {
  chooses_own 1 4 1 "${all[@]}" -- --gres=gpu:4 --muster=strict
  chooses_own 2 4 1 "${all[@]}" -- --gres=gpu:4 --muster=strict
  chooses_own 2 2 1 horovod torch jax -- --gpus-per-node=2 --muster=strict
}

@test "with --gres and several GPUs per task each rank gets its own GPUs" {
  chooses_own 2 2 2 horovod torch torch_modulo jax -- --gres=gpu:4 --muster=strict
}

@test "with --gpus-per-task every idiom that indexes its visible GPUs gets its own GPU" {
  chooses_own 2 4 1 torch_modulo tensorflow jax -- --gpus-per-task=1 --muster=strict
  chooses_own 2 2 2 tensorflow jax -- --gpus-per-task=2 --muster=strict
  # visible=node is for scripts that index by local rank.
  chooses_own 2 4 1 "${all[@]}" -- --gpus-per-task=1 --muster=strict,visible=node
}

@test "idioms that work without Muster work with it" {
  for idiom in "${all[@]}" tensorflow; do
    for option in --gres=gpu:4 --gpus-per-task=1; do
      chosen "$idiom" 1 -N1 -n4 --ntasks-per-node=4 $option --muster=off
      without=$gpus
      chosen "$idiom" 1 -N1 -n4 --ntasks-per-node=4 $option --muster
      echo "$idiom $option: without $without; with $gpus"
      [[ "$without" == *failed* || "$gpus" != *failed* ]]
    done
  done
}
