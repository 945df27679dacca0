#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# However a lab ends, no process, network link, mount, namespace, cgroup or folder of it remains.
#
# Each test runs in a pid, network and mount namespace that represents the whole machine, with an empty list of
# named network namespaces, so that other activity (a chaos job) does not show in the listings that are compared.

load setup

# on_a_quiet_machine FUNCTION: runs it as the first process of such a "machine", then compares the listings.
on_a_quiet_machine() {
  export NAME=left.$BATS_TEST_NUMBER.$$ BATS_TEST_TMPDIR BATS_ROOT
  export MUSTER_LAB=$NAME
  declare -f listing nothing_is_left down_and_nothing_left until_true shows_up step_runs in_foreground "$1" >"$BATS_TEST_TMPDIR/machine"
  cat >>"$BATS_TEST_TMPDIR/machine" <<END
mkdir -p /run/netns
umount --lazy /run/netns 2>/dev/null || true  # with the namespaces of others below it
mount -t tmpfs netns /run/netns
before=\$(listing)
$1
END
  timeout -k 5 1200 unshare --pid --net --mount --fork --kill-child --mount-proc bash -euo pipefail "$BATS_TEST_TMPDIR/machine" 3>&- && return
  # Remove it before the next test.
  "$LAB_COMMAND" down --name "$NAME" || true
  return 1
}

listing() {
  local processes
  processes=$(ps -e -o args=)
  # Without ps and the shells that make this listing.
  echo "processes: $(grep -vE '^ps |/machine$' <<<"$processes" | sort | paste -sd' ')"
  echo "links: $(ip -o link | cut -d: -f2 | paste -sd' ')"
  echo "named network namespaces: $(ls /run/netns 2>/dev/null | paste -sd' ')"
  echo "mounts: $(cat /proc/self/mounts)"
  echo "namespaces: $(lsns -n -o NS,TYPE | sort | paste -sd' ')"
  echo "cgroups: $(find /sys/fs/cgroup -type d -path "*/muster-lab.$NAME*" | paste -sd' ')"
  echo "folder: $(find /run/muster-lab -maxdepth 1 -name "$NAME" 2>/dev/null)"
}

# nothing_is_left: the listing is the same as before.
nothing_is_left() {
  local now
  now=$(listing)
  diff <(echo "$before") <(echo "$now")
}

# until_true CMD…: retries CMD, for as long as a busy machine may take.
until_true() {
  local end=$((SECONDS + 300))
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || { echo "not within the time: $*" && "$@"; }
    sleep 0.02
  done
}

# shows_up: a running lab appears in the listing, so the comparison can fail.
shows_up() {
  local now word
  now=$(listing)
  for word in processes namespaces folder; do
    [[ $(grep "^$word" <<<"$now") != "$(grep "^$word" <<<"$before")" ]] || { echo "$word do not show the lab" && return 1; }
  done
}

step_runs() { [[ $("$LAB_COMMAND" exec squeue -h -s | wc -l) -gt 0 ]]; }

# in_foreground SCRIPT: runs it like a terminal, in its own process group that receives Ctrl-C. Sets $group to
# its id. Returns once it handles Ctrl-C.
in_foreground() {
  rm -f "$BATS_TEST_TMPDIR/started"
  setsid env --default-signal=INT,QUIT bash -c ": >'$BATS_TEST_TMPDIR/started'; $1" >"$BATS_TEST_TMPDIR/foreground" 2>&1 &
  group=$!
  until_true test -e "$BATS_TEST_TMPDIR/started"
}

after_down() {
  "$LAB_COMMAND" up --owner $$ --nodes 2 --gpus 2
  "$LAB_COMMAND" exec sbatch -N2 -o /dev/null --wrap 'srun -N2 --mpi=$(srun --mpi=list 2>&1 | grep -wom 1 pmix || echo none) sleep 300'
  until_true step_runs
  shows_up
  "$LAB_COMMAND" down
  nothing_is_left
}
@test "after lab down with a job still running" { on_a_quiet_machine after_down; }

after_ctrl_c() {
  in_foreground '"$LAB_COMMAND" up --nodes 2 --gpus 2 && "$LAB_COMMAND" exec srun -N2 sleep 300; sleep 300'
  until_true step_runs
  shows_up
  kill -INT -- -$group
  until_true nothing_is_left
}
@test "after Ctrl-C in the script that uses it" { on_a_quiet_machine after_ctrl_c; }

after_ctrl_c_while_starting() {
  local delay
  for delay in 0.03 0.06 0.09 0.12 0.15 0.2 0.25 0.3 0.4 0.6 0.9 1.2; do
    # With a trap, like ./demo: without one, bash drops a Ctrl-C between two commands of a script.
    in_foreground 'trap "exit 130" INT; "$LAB_COMMAND" up --nodes 2 --gpus 2; sleep 300'
    sleep $delay
    kill -INT -- -$group
    until_true nothing_is_left
  done
}
@test "after Ctrl-C while it starts" { on_a_quiet_machine after_ctrl_c_while_starting; }

after_kill() {
  in_foreground '"$LAB_COMMAND" up --nodes 2 --gpus 2 && "$LAB_COMMAND" exec srun -N2 sleep 300; sleep 300'
  until_true step_runs
  shows_up
  # Only the owner: its foreground child ends with the lab.
  kill -KILL $group
  until_true nothing_is_left
}
@test "after kill -9 of its owner" { on_a_quiet_machine after_kill; }

down_and_nothing_left() {
  "$LAB_COMMAND" down || true
  nothing_is_left
}
after_kill_while_starting() {
  local delay
  for delay in 0.08 0.2 0.35; do
    in_foreground '"$LAB_COMMAND" up --nodes 2 --gpus 2; sleep 300'
    sleep $delay
    kill -KILL -- -$group
    # If it was killed before the hand-over, the folder and cgroups remain until the next command with that
    # name.
    until_true down_and_nothing_left
  done
}
@test "after kill -9 of lab up itself, and lab down" { on_a_quiet_machine after_kill_while_starting; }

after_kill_of_the_watcher() {
  local watcher
  "$LAB_COMMAND" up --owner $$ --nodes 2 --gpus 2
  read -r watcher _ <"/run/muster-lab/$NAME/watcher"
  kill -KILL "$watcher"
  # The kernel ends all processes at once; the folder and cgroups remain until the next command with that
  # name.
  until_true bash -c '! pgrep slurm && ! pgrep munged'
  "$LAB_COMMAND" up --owner $$ --nodes 1 --gpus 1
  read -r watcher _ <"/run/muster-lab/$NAME/watcher"
  kill -KILL "$watcher"
  "$LAB_COMMAND" down
  until_true nothing_is_left
}
@test "after kill -9 of its watcher, and lab down or the next lab up" { on_a_quiet_machine after_kill_of_the_watcher; }

# A test file that uses the lab; $1 is the body of its only test. Its lab is named after the file and a
# process id of the "machine". Another such machine may use the same id, so the file's name contains an id of
# the real machine.
write_test_file() {
  export INNER=$BATS_TEST_TMPDIR/in$$.bats
  {
    echo "load '$BATS_TEST_DIRNAME/setup'"
    echo "setup_file() { lab_up --nodes 2 --gpus 2; echo \"\$MUSTER_LAB\" >'$BATS_TEST_TMPDIR/inner.name'; }"
    echo "teardown_file() { lab_down; }"
    echo "@test \"inner\" { on_lab srun -N2 true; $1; }"
  } >"$INNER"
}

after_bats() {
  local status=0
  env -i HOME="$HOME" PATH="$PATH" "$BATS_ROOT/bin/bats" "$INNER" >"$BATS_TEST_TMPDIR/inner" 2>&1 || status=$?
  cat "$BATS_TEST_TMPDIR/inner"
  ((status == 1))
  grep -q '^not ok 1 inner' "$BATS_TEST_TMPDIR/inner"
  NAME=$(<"$BATS_TEST_TMPDIR/inner.name")
  nothing_is_left
}
@test "after a test that fails" {
  write_test_file false
  on_a_quiet_machine after_bats
}

after_bats_is_interrupted() {
  in_foreground 'exec env -i HOME="$HOME" PATH="$PATH" "$BATS_ROOT/bin/bats" "$INNER"'
  until_true test -s "$BATS_TEST_TMPDIR/inner.name" || { cat "$BATS_TEST_TMPDIR/foreground"; return 1; }
  NAME=$(<"$BATS_TEST_TMPDIR/inner.name")
  export MUSTER_LAB=$NAME
  until_true step_runs
  shows_up
  kill -"$(<"$BATS_TEST_TMPDIR/signal")" -- -$group
  until_true nothing_is_left
}
@test "after Ctrl-C in a test run" {
  write_test_file 'on_lab srun -N2 sleep 300'
  echo INT >"$BATS_TEST_TMPDIR/signal"
  on_a_quiet_machine after_bats_is_interrupted
}
@test "after kill -9 of a whole test run" {
  write_test_file 'on_lab srun -N2 sleep 300'
  echo KILL >"$BATS_TEST_TMPDIR/signal"
  on_a_quiet_machine after_bats_is_interrupted
}
