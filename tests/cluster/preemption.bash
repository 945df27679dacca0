# SPDX-License-Identifier: Apache-2.0
# Jobs of sbatch/preemptible.sbatch by name, with two ranks on two nodes; their folders and logs are in $RUNS.

# Short steps between checkpoints, which wait for the disk: long enough for a signal to arrive, with little to
# compute.
steps=${steps:-400} checkpoint_every=${checkpoint_every:-2}

# submit NAME [sbatch option…]
submit() {
  local name=$1
  shift
  lab exec sbatch --parsable --nodes=2 --ntasks-per-node=1 --output="$RUNS/$name.log" --chdir="$RUNS" "$@" "$REPOSITORY/sbatch/preemptible.sbatch" \
    --data "$REPOSITORY/LICENSE" --layers 1 --heads 2 --width 32 --context 32 --batch 8 --threads 1 --steps "$steps" \
    --eval-every 0 --checkpoint-every "$checkpoint_every" --no-mfu --no-tensorboard --output "$RUNS/$name" > "$RUNS/$name.job"
}
job() { cat "$RUNS/$1.job"; }
state() { lab exec scontrol --oneliner show job "$(job "$1")" | sed -n 's/.* JobState=\([A-Z_]*\) .*/\1/p'; }

# training NAME: waits until it trains.
training() {
  wait_until "grep -qs '\"state\":\"running\"' '$RUNS/muster-train-$(job "$1").status'" || { cat "$RUNS/$1.log" >&2; return 1; }
}

# lose_rank NAME: kills the rank on the second node with SIGKILL, once there is a checkpoint.
lose_rank() {
  wait_until "compgen -G '$RUNS/$1/checkpoints/step-*/state.json' >/dev/null"
  # shellcheck disable=SC2016  # expanded on the node
  lab node n1 bash -c 'kill -KILL "$(pgrep -f -- "^[^ ]*muster-train .*--output $1 ")"' - "$RUNS/$1"
}

# nodes_are_done NAME: no step of its earlier starts is left on the nodes; the next start has the same step
# numbers.
nodes_are_done() { ! lab node n0 pgrep -f "slurmstepd: \[$(job "$1")\." >/dev/null && ! lab node n1 pgrep -f "slurmstepd: \[$(job "$1")\." >/dev/null; }

# await_end NAME…: waits for their ends. Slurm delays a requeued job by two minutes; the test waits for the
# nodes and starts it earlier.
await_end() {
  local name limit=$((SECONDS + ${deadline:-300})) now left=("$@")
  while [ ${#left[@]} != 0 ]; do
    for name in "${left[@]}"; do
      now=$(state "$name")
      if [[ $now == PENDING ]] && nodes_are_done "$name"; then lab exec scontrol update JobId="$(job "$name")" StartTime=now || true; fi
      # A late answer is not a state, and a job that is being requeued has several.
      [[ ! $now =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|DEADLINE)$ ]] || mapfile -t left < <(printf '%s\n' "${left[@]}" | grep -vxF "$name")
    done
    [ $SECONDS -lt $limit ] || { echo "still there: ${left[*]}" >&2; cat "$RUNS/${left[0]}.log" >&2; return 1; }
    sleep 0.2
  done
}

# went_on NAME LINE: it was stopped with this line, was requeued (once, unless starts=several), and ended with
# the bytes of the job "whole".
went_on() {
  local last file
  last=checkpoints/$(printf 'step-%08d' "$steps")
  cat "$RUNS/$1.log"
  [ "$(state "$1")" = COMPLETED ]
  grep -q "$2" "$RUNS/$1.log"
  [ "$(grep -c 'start number' "$RUNS/$1.log")" = 2 ] || [[ ${starts:-} == several ]]
  grep -q '^resuming ' "$RUNS/$1.log"
  for file in tensors.safetensors state.json; do cmp "$RUNS/whole/$last/$file" "$RUNS/$1/$last/$file"; done
  ! grep -q '^resuming ' "$RUNS/whole.log"
}
