#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --muster=report: one table per step, for any number of nodes and tasks.
load setup

setup_file() {
  # The nodes delay a step while the file `hold` exists.
  printf '#!/bin/bash\nfor i in {1..1000}; do [ -e %q ] || exit 0; sleep 0.1; done\n' "$BATS_FILE_TMPDIR/hold" >"$BATS_FILE_TMPDIR/prolog"
  chmod +x "$BATS_FILE_TMPDIR/prolog"
  lab_up --nodes 2 --gpus 2 --plugin "$(plugin)" --etc <(printf '%s\n' "Prolog=$BATS_FILE_TMPDIR/prolog" MessageTimeout=100)
}
teardown_file() { lab_down; }

titles() { grep -c '^local rank  rank ' <<<"$output"; }
# The collecting process has the name muster-report.
collectors() { on_node ctl bash -c 'cat /proc/[0-9]*/comm 2>/dev/null | grep -cx muster-report || true'; }
# The process itself notices that srun has ended.
no_collector_left() { wait_until '[ "$(collectors)" = 0 ]'; }

@test "tables and errors contain no terminal control characters from the environment" {
  local escape=$'\e]0;title\a\u009b2J'
  run in_job --muster=explain env NCCL_SOCKET_IFNAME="$escape" srun true
  [ "$status" = 0 ]
  [[ "$output" == *"NCCL_SOCKET_IFNAME=?]0;title?"* ]]
  [[ "$output" != *$'\e'* && "$output" != *$'\a'* && "$output" != *$'\u009b'* ]]
  run lab exec srun -n1 --muster="$escape" true
  [ "$status" != 0 ]
  [[ "$output" == *"muster: --muster=?]0;title?"* ]]
  run -0 lab exec env "_SLURM_SPANK_OPTION_muster_muster=auto,$escape" srun -N1 -n1 --gpus-per-task=1 true
  [[ "$output" == *"muster: n"*"?]0;title?"* ]]
  [[ "$output" != *$'\e'* && "$output" != *$'\a'* && "$output" != *$'\u009b'* ]]
}

@test "two equal nodes are one block of one table" {
  run in_job --muster=report srun true
  [ "$status" = 0 ]
  [ "$(titles)" = 1 ]
  [[ "$output" == *"4 tasks on 2 nodes, planned in "* ]]
  [[ "$output" == *"n[0-1]: 2 nodes alike, ranks 0-3"* ]]
  [ "$(grep -cE '^[01] +(0,2|1,3) +0000:[0-9a-f]{2}:00\.0 ' <<<"$output")" = 2 ]
}

@test "nodes with different CPUs have separate blocks in one table" {
  # One core and one GPU of n0 are in use, so its share differs from n1's.
  # shellcheck disable=SC2016  # the inner shell expands it
  run lab exec bash -c "$(declare -f wait_until)"'
    srun -N1 -n1 -w n0 -c1 --gres=gpu:1 sleep 300 & wait_until "[ -n \"\$(squeue -h -t R)\" ]"
    srun -N2 -n2 -c1 --gres=gpu:1 --muster=report true; scancel -u root; wait'
  [ "$(grep -c '^muster [0-9.]*: 2 tasks on 2 nodes' <<<"$output")" = 1 ]
  [ "$(grep -c '^n0: rank 0$' <<<"$output")" = 1 ]
  [ "$(grep -c '^n1: rank 1$' <<<"$output")" = 1 ]
}

@test "when Slurm itself binds the GPUs, the table shows each task's GPU" {
  for binding in per_task:1 map_gpu:1,0; do
    run lab exec srun -N2 -n4 --gres=gpu:2 --gpu-bind=$binding --muster=report bash -c 'echo "$SLURM_PROCID has=$MUSTER_GPUS"
      echo "$SLURM_PROCID bound=$(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)"'
    [ "$status" = 0 ]
    [ "$(titles)" = 1 ]
    # Both nodes assign alike, so the table is one block; each line begins with local rank, ranks, GPU and
    # CPUs.
    for local in 0 1; do
      row=$(grep -E "^$local +$local,$((local + 2)) " <<<"$output")
      [ "$(awk '{ print $3 }' <<<"$row")" = "$(value has | cut -d' ' -f$((local + 1)))" ]
      [ "$(awk '{ print $4 }' <<<"$row")" = "$(value bound | cut -d' ' -f$((local + 1)))" ]
    done
    [ "$(value has | tr ' ' '\n' | sort -u | wc -l)" = 2 ]
  done
}

@test "the report's address is not in the tasks' environment, and --export=NONE does not lose it" {
  run in_job --muster=report srun --export=NONE /bin/bash -c 'echo "left ${SLURM_MUSTER_REPORT-nothing}"'
  [ "$(grep -c '^left nothing$' <<<"$output")" = 4 ]
  [ "$(titles)" = 1 ]
}

# step_while_collector STATE: runs a step that starts on the nodes after its collector got the signal STOP or
# KILL; sets $output to its output.
step_while_collector() {
  touch "$BATS_FILE_TMPDIR/hold"
  lab exec timeout 600 srun -N2 -n4 --gres=gpu:2 --muster=report true >"$BATS_TEST_TMPDIR/output" 2>&1 &
  local srun=$! collector
  wait_until '[ "$(collectors)" = 1 ]'
  collector=$(on_node ctl bash -c 'grep -lx muster-report /proc/[0-9]*/comm 2>/dev/null' | tr -dc '[:digit:]')
  on_node ctl kill -s "$1" "$collector"
  rm "$BATS_FILE_TMPDIR/hold"
  wait "$srun"
  [ "$1" = KILL ] || on_node ctl kill -s CONT "$collector"
  no_collector_left
  output=$(<"$BATS_TEST_TMPDIR/output")
}

@test "without a collector each node prints its own table, once" {
  step_while_collector KILL
  [ "$(titles)" = 2 ]
  [ "$(grep -c '^n0: ranks 0-1$' <<<"$output")" = 1 ]
  [ "$(grep -c '^n1: ranks 2-3$' <<<"$output")" = 1 ]
}

@test "a collector that does not answer in time does not print what the nodes have printed" {
  step_while_collector STOP
  [ "$(titles)" = 2 ]
  [ "$(grep -c '^n0: ranks 0-1$' <<<"$output")" = 1 ]
}

@test "after Ctrl-C in a running step the table is printed once, and no process stays" {
  local srun
  lab exec bash -c 'echo $$ >'"$BATS_TEST_TMPDIR"'/pid; exec srun -N2 -n4 --gres=gpu:2 --muster=report sleep 300' >"$BATS_TEST_TMPDIR/output" 2>&1 &
  srun=$!
  wait_until 'grep -q "^1 .*0000:" "$BATS_TEST_TMPDIR/output"'
  # Two within a second end it.
  wait_until 'on_node ctl bash -c "kill -INT $(<"$BATS_TEST_TMPDIR/pid"); sleep 0.2; kill -INT $(<"$BATS_TEST_TMPDIR/pid")" 2>/dev/null
    ! kill -0 "$srun" 2>/dev/null'
  no_collector_left
  output=$(<"$BATS_TEST_TMPDIR/output")
  [ "$(titles)" = 1 ]
}

@test "when srun is killed before the nodes start, the collector ends too" {
  touch "$BATS_FILE_TMPDIR/hold"
  lab exec bash -c 'echo $$ >'"$BATS_TEST_TMPDIR"'/pid; exec srun -N2 -n4 --gres=gpu:2 --muster=report sleep 300' >"$BATS_TEST_TMPDIR/output" 2>&1 &
  local srun=$!
  wait_until '[ "$(collectors)" = 1 ]'
  # Soon it has no descriptor of srun's except stderr; its own are /dev/null twice, the listening socket and
  # the pipe.
  # shellcheck disable=SC2016  # the inner shell expands it
  wait_until '[ "$(on_node ctl bash -c '\''ls "$(dirname "$(grep -lx muster-report /proc/[0-9]*/comm)")"/fd | wc -l'\'')" = 5 ]'
  on_node ctl kill -KILL "$(<"$BATS_TEST_TMPDIR/pid")"
  no_collector_left
  rm "$BATS_FILE_TMPDIR/hold"
  wait "$srun" || true
  lab exec scancel -u root
}

@test "a pipe after srun ends with it, and no process stays" {
  run lab exec bash -c 'srun -N2 -n2 --muster=report true 2>&1 | cat'
  [ "$status" = 0 ]
  [ "$(titles)" = 1 ]
  no_collector_left
}

@test "--muster=explain prints the same table with the reasons and the user's choices" {
  run in_job --muster=explain env NCCL_SOCKET_IFNAME=mine srun true
  [ "$status" = 0 ]
  [ "$(titles)" = 1 ]
  [ "$(grep -c "^local rank.*: memory on the GPU's NUMA domain$" <<<"$output")" = 1 ]
  [[ "$output" == *"memory on the GPU's NUMA domain"* ]]
  [[ "$output" == *"NCCL_SOCKET_IFNAME=mine: "* ]]
}

@test "the IMEX channel that the tasks may open is printed once for the nodes that have it" {
  for node in n0 n1; do
    on_node "$node" bash -c 'mkdir -p /dev/nvidia-caps-imex-channels && touch /dev/nvidia-caps-imex-channels/channel3'
  done
  run in_job --muster=report srun true
  [ "$status" = 0 ]
  [ "$(grep -c '^note: n\[0-1\]: IMEX channel 3$' <<<"$output")" = 1 ]
  for node in n0 n1; do on_node "$node" rm -r /dev/nvidia-caps-imex-channels; done
  run in_job --muster=report srun true
  [[ "$output" != *IMEX* ]]
}

@test "--muster=json writes each node's plan into the task's working directory, as the user" {
  cd "$BATS_TEST_TMPDIR"
  chmod go+x "$BATS_RUN_TMPDIR"
  mkdir there && chown nobody there
  # Runs salloc as that user: Slurm 24.11 has no salloc --uid.
  run lab exec setpriv --reuid=nobody --regid=nogroup --clear-groups salloc --quiet -N2 --ntasks-per-node=2 --gpus-per-task=1 \
    --chdir="$PWD/there" --muster=json srun --chdir="$PWD/there" bash -c 'echo "job $SLURM_JOB_ID"'
  [ "$status" = 0 ]
  [[ "$output" != *"muster"* ]]
  job=$(sed -n 's/^job //p' <<<"$output" | head -n 1)
  for node in n0 n1; do
    python3 - "there/muster-$job.0-$node.json" "$node" <<'END'
import json, os, pwd, sys
plan = json.load(open(sys.argv[1]))
assert plan["schema"] == 1 and plan["node"]["host"] == sys.argv[2], plan
ranks = [task["environment"]["RANK"] for task in plan["tasks"]]
assert ranks == {"n0": ["0", "1"], "n1": ["2", "3"]}[sys.argv[2]], ranks
assert pwd.getpwuid(os.stat(sys.argv[1]).st_uid).pw_name == "nobody"
END
  done
}

@test "--muster=json=FILE writes one file per node; if that fails, the step still runs" {
  cd "$BATS_TEST_TMPDIR"
  run in_job --muster="json=$PWD/plan.json,report" bash -c 'umask 0027; unset SLURM_UMASK; srun bash -c "umask; echo done"'
  [ "$status" = 0 ]
  [ -s plan-n0.json ] && [ -s plan-n1.json ]
  [ "$(grep -cx 0027 <<<"$output")" = 4 ]
  [ "$(stat -c %a plan-n0.json)" = 640 ]
  [ "$(titles)" = 1 ]
  run in_job --muster=json=/nowhere/plan.json srun bash -c 'echo "done"'
  [ "$status" = 0 ]
  [ "$(grep -c '^done$' <<<"$output")" = 4 ]
  [ "$(grep -c 'muster: n[01]: the plan cannot be written to /nowhere/plan-n[01].json: No such file' <<<"$output")" = 2 ]
}

@test "a plan and a report name the node as Slurm does, whatever the host is called" {
  cd "$BATS_TEST_TMPDIR"
  for node in n0 n1; do on_node "$node" hostname one-host.example; done
  run in_job --muster="json=$PWD/plan-%N.json,report" srun true
  for node in n0 n1; do on_node "$node" hostname "$node"; done
  [ "$status" = 0 ]
  [ -s plan-n0.json ]
  [ -s plan-n1.json ]
  [[ "$output" == *"n[0-1]: 2 nodes alike"* ]]
  [[ "$output" != *one-host* ]]
}
