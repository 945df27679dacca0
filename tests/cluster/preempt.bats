#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Jobs of sbatch/preemptible.sbatch that are stopped in every way that Slurm has except its time limit
# (./check --resume-often): they save, requeue themselves and end with the bytes of an uninterrupted job. All
# at once on one lab.
load setup
load preemption

# stand_in: a fake muster-train that only leaves the status and the exit code of failed runs, a different one
# at each start.
stand_in() {
  cat <<'PROGRAM'
#!/bin/bash
ends=(lost:2:75 unfinished:2:0 lost:1:75 running:2:137 lost:2:75 lost:2:75 running:2:137 finished:3:0)
IFS=: read -r state checkpoint code <<<"${ends[SLURM_RESTART_COUNT]}"
for argument in "$@"; do status=${argument#--status=}; done
echo "{\"state\":\"$state\",\"step\":9,\"steps\":10,\"checkpoint\":\"step-$checkpoint\"}" >"$status"
exit "$code"
PROGRAM
}

setup_file() {
  export PATH=$MUSTER_BUILD/bin:$PATH RUNS=$BATS_FILE_TMPDIR/runs MUSTER_TRAIN_DEVICE=cpu
  mkdir "$RUNS"
  # Slurm's default, because the first step may take longer than the lab's 2 s.
  lab_up --nodes 2 --gpus 8 --cpus 32 --plugin "$(plugin)" --etc <(echo KillWait=30)
  # Held until all are submitted: on a busy machine the first would end its training before the test waits for
  # it.
  for name in whole term usr2 requeued cancelled lost unlaunched; do submit "$name" --hold; done
  # On n1 the first step of this job finds the remains of an earlier start with the same step number.
  : >"/run/muster-lab/$MUSTER_LAB/nodes/n1/spool/stepd.slurm.pmix.$(job unlaunched).0"
  stand_in > "$RUNS/stand-in"
  chmod +x "$RUNS/stand-in"
  MUSTER_TRAIN=$RUNS/stand-in submit doomed --nodes=1
  local -A reaches=()
  training term && lab exec scancel --signal=TERM "$(job term)" & reaches[term]=$!
  training usr2 && lab exec scancel --signal=USR2 "$(job usr2)" & reaches[usr2]=$!
  training requeued && lab exec scontrol requeue "$(job requeued)" & reaches[requeued]=$!
  training cancelled && lab exec scancel "$(job cancelled)" & reaches[cancelled]=$!
  training lost && lose_rank lost & reaches[lost]=$!
  local name
  for name in whole term usr2 requeued cancelled lost unlaunched; do lab exec scontrol release "$(job "$name")"; done
  for name in "${!reaches[@]}"; do wait "${reaches[$name]}" || { echo "nothing happened to the job $name" >&2; return 1; }; done
  await_end whole term usr2 requeued cancelled lost doomed unlaunched
}
teardown_file() { lab_down; }

@test "scancel --signal=TERM: saved, requeued by its own script, the same bytes" { went_on term "stopped by signal 15"; }
@test "scancel --signal=USR2: saved, requeued by its own script, the same bytes" { went_on usr2 "stopped by signal 12"; }
@test "scontrol requeue: saved, requeued once, the same bytes" { went_on requeued "stopped by signal"; }

@test "a rank that is killed: requeued by its own script, the same bytes" { went_on lost "rank 1"; }

@test "a step that cannot be launched is retried" {
  needs_pmix
  cat "$RUNS/unlaunched.log"
  [ "$(state unlaunched)" = COMPLETED ]
  [ "$(grep -c 'before the training began' "$RUNS/unlaunched.log")" = 1 ]
  cmp "$RUNS/whole/checkpoints/step-00000400/tensors.safetensors" "$RUNS/unlaunched/checkpoints/step-00000400/tensors.safetensors"
}

@test "a cancelled job is not requeued" {
  cat "$RUNS/cancelled.log"
  [ "$(state cancelled)" = CANCELLED ]
  [ "$(grep -c 'start number' "$RUNS/cancelled.log")" = 1 ]
}

@test "when ranks are lost repeatedly without a checkpoint or signal in between, the job is requeued three times, then ends with a line" {
  # Once the state was FAILED before the log had the last start.
  wait_until 'grep -q "lost ranks four times" "$RUNS/doomed.log" && [ "$(state doomed)" = FAILED ]' || { cat "$RUNS/doomed.log"; return 1; }
  [ "$(grep -c 'start number' "$RUNS/doomed.log")" = 7 ]
  [ "$(grep -c 'goes back into the queue' "$RUNS/doomed.log")" = 6 ]
  [ "$(grep -c 'lost ranks four times' "$RUNS/doomed.log")" = 1 ]
  lab exec scontrol --oneliner show job "$(job doomed)" | grep -q ' ExitCode=137:0 '
  ! compgen -G "$RUNS/muster-train-$(job doomed).status*"
}
