#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Jobs of sbatch/preemptible.sbatch that are stopped in every way that Slurm has but its time limit (./check --resume-often): they save, requeue
# themselves and end with the bytes of a job that was never stopped. All at once on one lab.
load setup
load preemption

setup_file() {
  export PATH=$MUSTER_BUILD/bin:$PATH RUNS=$BATS_FILE_TMPDIR/runs
  mkdir "$RUNS"
  lab_up --nodes 2 --gpus 8 --cpus 32 --plugin "$(plugin)"
  for name in whole term usr2 requeued cancelled lost; do submit "$name"; done
  training term && lab exec scancel --signal=TERM "$(job term)"
  training usr2 && lab exec scancel --signal=USR2 "$(job usr2)"
  training requeued && lab exec scontrol requeue "$(job requeued)"
  training cancelled && lab exec scancel "$(job cancelled)"
  training lost && lose_rank lost
  await_end whole term usr2 requeued cancelled lost
}
teardown_file() { lab_down; }

@test "scancel --signal=TERM: saved, requeued by its own script, the same bytes" { went_on term "stopped by signal 15"; }
@test "scancel --signal=USR2: saved, requeued by its own script, the same bytes" { went_on usr2 "stopped by signal 12"; }
@test "scontrol requeue: saved, brought back once, the same bytes" { went_on requeued "stopped by signal"; }

@test "a rank that is killed: requeued by its own script, the same bytes" { went_on lost "rank 1"; }

@test "a job that somebody cancels does not come back" {
  cat "$RUNS/cancelled.log"
  [ "$(state cancelled)" = CANCELLED ]
  [ "$(grep -c 'start number' "$RUNS/cancelled.log")" = 1 ]
}
