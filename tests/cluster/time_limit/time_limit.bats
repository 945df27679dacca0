#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A job of sbatch/preemptible.sbatch that needs more than its time limit: Slurm signals it before, as #SBATCH --signal asks; it saves, requeues
# itself and ends with the bytes of a job that had the time. Slurm looks at limits of whole minutes every half of one, so this takes minutes.
load ../setup
load ../preemption

setup_file() {
  export PATH=$MUSTER_BUILD/bin:$PATH RUNS=$BATS_FILE_TMPDIR/runs steps=40000
  mkdir "$RUNS"
  lab_up --nodes 2 --gpus 4 --cpus 32 --plugin "$(plugin)"
  submit whole
  submit limited --time=1 --signal=TERM@50
  LAB_DEADLINE=600 await_end limited whole
}
teardown_file() { lab_down; }

@test "a time limit: signalled before, saved, requeued by its own script, the same bytes" { went_on limited "stopped by signal 15"; }
