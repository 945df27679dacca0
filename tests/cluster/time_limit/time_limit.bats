#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A job of sbatch/preemptible.sbatch that exceeds its time limit: Slurm signals it before, as #SBATCH --signal
# requests; it saves, requeues itself and ends with the bytes of an uninterrupted job. Slurm checks limits of
# whole minutes every 30 s, so this takes minutes.
load ../setup
load ../preemption

setup_file() {
  export PATH=$MUSTER_BUILD/bin:$PATH RUNS=$BATS_FILE_TMPDIR/runs MUSTER_TRAIN_DEVICE=cpu checkpoint_every=0 steps=500
  mkdir "$RUNS"
  lab_up --nodes 2 --gpus 4 --cpus 32 --plugin "$(plugin)"
  submit pace
  await_end pace
  # About 75 s of steps, more than the time limit.
  steps=$(sed -n 's/.*"step_seconds": \([0-9.e-]*\).*/\1/p' "$RUNS/pace/summary.json" | awk '{ printf "%d", 75 / $1 }') checkpoint_every=1000
  export steps
  submit whole
  submit limited --time=1 --signal=TERM@50
  deadline=900 await_end limited whole
}
teardown_file() { lab_down; }

@test "time limit: signalled before it, saved, requeued by its own script, the same bytes" {
  starts=several went_on limited "stopped by signal 15"
  [ "$(grep -c 'start number' "$RUNS/limited.log")" -ge 2 ]
}
