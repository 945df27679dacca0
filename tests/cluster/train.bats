#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Training jobs on a real two-node Slurm: the template, identical parameters on all ranks, and users'
# mistakes.
load setup

setup_file() {
  export PATH=$MUSTER_BUILD/bin:$PATH
  export small="--layers 1 --heads 2 --width 32 --context 32 --batch 8 --steps 6"
  lab_up --nodes 2 --gpus 2 --plugin "$(plugin)"
}
teardown_file() { lab_down; }

# train OPTIONS...: runs four ranks on the two nodes, as the template starts them.
# shellcheck disable=SC2086  # $small is several words
train() { lab exec salloc --quiet -N2 --ntasks-per-node=2 --gpus-per-task=1 --muster srun --mpi="${mpi:-$LAB_MPI}" --kill-on-bad-exit=1 muster-train --device=cpu $small "$@"; }
# checkpoint FOLDER STEP: prints the name of the file with its tensors.
checkpoint() { printf '%s/checkpoints/step-%08d/tensors.safetensors\n' "$1" "$2"; }
folder() { mkdir -p "$BATS_TEST_TMPDIR/out" && echo "$BATS_TEST_TMPDIR/out"; }

@test "sbatch/train.sbatch runs as it is, from sbatch to the checkpoint" {
  out=$(folder)
  # shellcheck disable=SC2086
  run lab exec sbatch --wait --muster=report --output="$out/job.log" sbatch/train.sbatch --device=cpu $small --output "$out"
  cat "$out/job.log"
  [ "$status" = 0 ]
  grep -q '^n\[0-1\]: 2 nodes alike, ranks 0-3' "$out/job.log"
  grep -q 'validation loss' "$out/job.log"
  [ -s "$out/metrics.jsonl" ]
  [ -s "$(checkpoint "$out" 6)" ]
  grep -q '"state":"finished"' "$out/status.json"
  [ -s "$out/loss.svg" ]
}

@test "four ranks on two nodes end with bit-identical parameters" {
  run train --output "$(folder)"
  [ "$status" = 0 ]
  [[ "$output" =~ "parameters identical on 4 ranks (hash "[0-9a-f]+")" ]]
}

@test "the template submitted again resumes from the checkpoint" {
  out=$(folder)
  train --output "$out"
  run train --output "$out" --steps 9 --resume=auto
  [ "$status" = 0 ]
  [[ "$output" == *"resuming $out/checkpoints/step-00000006 after step 6"* ]]
  [ -s "$(checkpoint "$out" 9)" ]
  ! cmp -s "$(checkpoint "$out" 6)" "$(checkpoint "$out" 9)"
}

@test "srun without PMIx trains as one job of four ranks over the control plane, and prints that once" {
  mpi=none run train --output "$(folder)" --steps 2
  [ "$status" = 0 ]
  [ "$(grep -c -- '--mpi=pmix' <<<"$output")" = 1 ]
  [[ "$output" == *"4 ranks"* ]]
}

@test "a plugin of a different version from the runtime's is named, with both versions" {
  run lab exec salloc --quiet -N2 --ntasks-per-node=2 --gpus-per-task=1 --muster srun --mpi="$LAB_MPI" env MUSTER_VERSION=9.7.0 muster-train --device=cpu --output "$(folder)"
  [ "$status" != 0 ]
  [[ "$output" == *9.7.0* && "$output" == *0.1.0* ]]
}

# on_placed_gpus OPTION...: runs two ranks with a GPU each, without --device.
on_placed_gpus() {
  run lab exec salloc --quiet -N1 -n2 --gpus-per-task=1 --muster srun --mpi="$LAB_MPI" --kill-on-bad-exit=1 muster-train "$@" --output "$(folder)"
}

@test "a placed GPU that CUDA cannot use is an error, not a silent run on the CPU" {
  # shellcheck disable=SC2086
  on_placed_gpus ${small/--heads 2 --width 32/--heads 1 --width 64}
  [[ "$output" != *"built without nvcc"* ]] || skip "this build has no kernels for a GPU, and says so"
  [ "$status" != 0 ]
  [[ "$output" == *"--device=cpu"* ]]
  [ ! -e "$(folder)/checkpoints" ]
}

@test "a model that a GPU cannot train is trained on the CPU, with a message" {
  # shellcheck disable=SC2086
  on_placed_gpus $small
  [ "$status" = 0 ]
  [ "$(grep -c 'note: computing on the CPU: ' <<<"$output")" = 1 ]
}

@test "a missing data file and an empty one are named on one line, and the job ends" {
  run train --output "$(folder)" --data /nonexistent/text
  [ "$status" != 0 ]
  [ "$(grep -c /nonexistent/text <<<"$output")" = 1 ]
  : > "$(folder)/empty"
  run train --output "$(folder)" --data "$(folder)/empty"
  [ "$status" != 0 ]
  [ "$(grep -c "$(folder)/empty" <<<"$output")" = 1 ]
}

@test "more tasks than GPUs ends the job before anything trains" {
  # shellcheck disable=SC2086
  run lab exec salloc --quiet -N1 -n2 --gres=gpu:1 --muster=strict srun --mpi="$LAB_MPI" muster-train --device=cpu $small --output "$(folder)"
  [ "$status" != 0 ]
  [[ "$output" == *"2 tasks"*"1 GPU"* ]]
  [ ! -e "$(folder)/metrics.jsonl" ]
}

@test "a disk that fills up during a checkpoint ends the job, names it, and leaves the previous checkpoint good" {
  train --output "$(folder)"
  size=$(stat -c %s "$(checkpoint "$(folder)" 6)")
  # On node 0, where rank 0 writes: a file system with space for one and a half checkpoints.
  disk=$BATS_TEST_TMPDIR/disk
  mkdir "$disk"
  lab node n0 mount -t tmpfs -o "size=$((size * 3 / 2 + 65536))" tmpfs "$disk"
  train --output "$disk"
  lab node n0 cat "$(checkpoint "$disk" 6)" > "$BATS_TEST_TMPDIR/before"
  run train --output "$disk" --steps 12 --resume=auto
  lab node n0 cat "$(checkpoint "$disk" 6)" > "$BATS_TEST_TMPDIR/after"
  left=$(lab node n0 ls "$disk/checkpoints")
  lab node n0 umount "$disk"
  [ "$status" != 0 ]
  [ "$(grep -c 'No space left on device' <<<"$output")" = 1 ]
  cmp "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
  [ "$left" = step-00000006 ]
}
