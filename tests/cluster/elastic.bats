#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Ranks of an elastic training run are lost on three nodes; tests/bench/elastic_losses starts their lab. New ranks
# join a run of sbatch/elastic.sbatch on two nodes.

load setup
load templates/submit

setup_file() {
  small_runs
  # Slurm must not take a node out of the job while its link is down.
  echo SlurmdTimeout=600 > "$BATS_FILE_TMPDIR/slurm.conf.lines"
  lab_up --nodes 2 --gpus 2 --no-isolate --plugin "$(plugin)" --etc "$BATS_FILE_TMPDIR/slurm.conf.lines"
}
teardown_file() { lab_down; }

# await_line PATTERN: waits for a line of the job's log.
await_line() { wait_until "grep -q '$1' '$folder/job.log'" || { cat "$folder/job.log"; return 1; }; }

@test "elastic: the ranks that are left end with the bytes of a run that lost none" {
  "$REPOSITORY/tests/bench/elastic_losses" --runs 1 --kinds killed,during-mend
}

@test "elastic: a node whose link broke gets new ranks when it is back, but none that its memory has no room for" {
  options=(--data "$REPOSITORY/LICENSE" --steps 10000000 --checkpoint-every 1000 --eval-every 0 --log-every 1)
  MUSTER_SPARE_NODES=0 submit elastic --nodes=2 -- "${options[@]}"
  await_line '^step '
  lab node n1 ip link set eth0 down
  await_line 'is silent for 10 s: .*: lost rank 2 (host n1), rank 3 (host n1), after step .*; 2 ranks go on, '
  wait_until "! lab node n1 pgrep -f -- '^[^ ]*muster-train ' >/dev/null"
  sleep 5  # until Slurm gives up reporting how they ended, so that srun awaits them for ever
  lab node n1 ip link set eth0 up
  await_line '^rank [23] (host n1).* joined, after step .*; 4 ranks go on, '
  # They take part: steps follow.
  wait_until "sed '1,/ joined, after step .*; 4 ranks go on/d' '$folder/job.log' | grep -q '^step '" || { cat "$folder/job.log"; return 1; }

  sed 's/^MemAvailable:.*/MemAvailable: 50000 kB/' /proc/meminfo > "$BATS_TEST_TMPDIR/meminfo"
  # shellcheck disable=SC2016  # expanded on the node
  run lab exec srun --quiet --jobid="$job" --chdir="$folder" --mpi=none --overlap --nodes=1 --nodelist=n1 --ntasks=1 unshare --mount \
    sh -c 'mount --bind "$1" /proc/meminfo && shift && exec "$@"' - "$BATS_TEST_TMPDIR/meminfo" \
    muster-train --resume=auto --elastic=2:4 "${options[@]}" --status="$folder/muster-train-$job.status" --join
  echo "$output"
  [ "$(grep -c '^muster-train: --join: 1 new rank on n1 needs .* of memory, and .* is available on this host: start fewer there, or use a host with more memory$' <<<"$output")" = 1 ]
  [ "$status" = 64 ]
  [ "$(grep -c ': lost rank' "$folder/job.log")" = 1 ]

  # srun may not have learned how the ranks on n1 ended. The job ends with the run all the same.
  # shellcheck disable=SC2016
  lab node n0 bash -c 'kill -INT $(pgrep -f -- "^[^ ]*muster-train ")'
  finished
  grep -q '^stopped by signal 2 after step ' "$folder/job.log"
}

# in_rank NODE LOCAL_RANK: sets $pid of the rank of the run's start, and $gpu, that of its environment.
in_rank() {
  # shellcheck disable=SC2016  # expanded on the node
  read -r pid gpu < <(lab node "$1" bash -c 'for pid in $(pgrep -f -- "^[^ ]*muster-train "); do
      tr "\0" "\n" <"/proc/$pid/environ" | grep -cxE "SLURM_LOCALID=$0|SLURM_STEP_ID=0" | grep -qx 2 || continue
      echo "$pid $(tr "\0" "\n" <"/proc/$pid/environ" | sed -n s/^MUSTER_GPUS=//p)"
    done' "$2")
  [[ $pid =~ ^[0-9]+$ && $gpu =~ ^[0-9a-f:.]+$ ]] || { echo "no rank $2 on $1: '$pid' '$gpu'"; return 1; }
}

@test "elastic: on a node that lost one of its ranks, the new rank gets the GPU that no other one uses" {
  MUSTER_SPARE_NODES=0 submit elastic --nodes=2 -- --data "$REPOSITORY/LICENSE" --steps 10000000 --checkpoint-every 0 --eval-every 0
  await_line '^step '
  local local_rank
  for local_rank in 1 0; do
    in_rank n1 "$local_rank"
    lab node n1 kill -KILL "$pid"
    await_line "^--join: GPU $gpu is placed for this process$"
    wait_until '[ "$(grep -c "^rank 3 (host n1) joined, after step .*; 4 ranks go on, " "$folder/job.log")" = $((2 - local_rank)) ]' || { cat "$folder/job.log"; return 1; }
  done
  # Both new ranks may use all CPUs of the job there.
  # shellcheck disable=SC2016
  run -0 lab node n1 bash -c 'for pid in $(pgrep -f -- "^[^ ]*muster-train "); do sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" "/proc/$pid/status"; done'
  [ "$output" = $'0-1\n0-1' ]
  # shellcheck disable=SC2016
  lab node n0 bash -c 'kill -INT $(pgrep -f -- "^[^ ]*muster-train ")'
  finished
}
