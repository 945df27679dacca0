#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The plugin's behaviour when something on the node fails: in `auto` a step runs on with Slurm's own binding
# and one line gives the reason; in `strict` it ends with one line. No node is drained, no slurmstepd stays,
# nothing is left behind.
load setup

setup_file() { lab_up --nodes 2 --gpus 2; }
teardown_file() { lab_down; }

# plugstack LINE: sets the line from the next step on. A wrapping plugin (spank_fault.cpp) injects the faults.
plugstack() { echo "required $1" >"/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"; }
fault() { plugstack "$MUSTER_BUILD/lib/spank_fault.so $1 $(plugin)"; }

setup() { plugstack "$(plugin)"; }

# until_over: waits until no step's process is left on a node; a step caches the topology and writes its last
# log lines before it ends.
until_over() { wait_until '! on_node n0 pgrep -a slurmstepd && ! on_node n1 pgrep -a slurmstepd'; }

# Every test ends with this: all nodes are in service, no step's process is left, and at most the cache file
# exists.
teardown() {
  local node
  on_lab scancel --quiet --user root
  until_over
  for node in n0 n1; do
    run -0 on_node "$node" bash -c 'ls -A /run/muster 2>/dev/null | grep -vx topology || true'
    [ -z "$output" ]
    on_node "$node" rm -rf /run/muster
  done
  run -0 on_lab sinfo --noheader --format=%T%E
  [[ "$output" != *drain* && "$output" != *down* ]]
}

# Two tasks on n0 print the GPU that each sees, and whether Muster placed it.
# shellcheck disable=SC2016  # for the shell in the task
show='echo "task $SLURM_PROCID ${CUDA_VISIBLE_DEVICES-none} ${MUSTER_SET:+placed}"'
step() { on_lab srun -N1 -w n0 -n2 --gpus-per-task=1 "$@" bash -c "$show"; }

# runs_unplaced REASON: in `auto` both tasks run as without Muster, each with its own GPU, and one line gives
# the reason.
runs_unplaced() {
  run step --muster=auto
  [ "$status" = 0 ]
  [ "$(grep -cE '^task [01] [01] $' <<<"$output")" = 2 ]
  [ "$(grep -c '^muster: ' <<<"$output")" = 1 ]
  [[ "$output" == *"muster: n0: "*"$1"*"; Slurm's own binding stays"* ]]
}

# ends_in_strict REASON: prints one line, and no task runs.
ends_in_strict() {
  run step --muster=strict
  [ "$status" = 78 ]
  [[ "$output" != *"task "[01]" "* ]]
  [ "$(grep -c '^muster: ' <<<"$output")" = 1 ]
  [[ "$output" == *"$1"*"the step ends, as --muster=strict asks"* ]]
}

# Both tasks are placed, and nothing is printed.
runs_placed() {
  run step --muster=strict
  [ "$status" = 0 ]
  [ "$(grep -cE '^task [01] [01] placed$' <<<"$output")" = 2 ]
  [[ "$output" != *muster:* ]]
}

# log_contains TEXT: slurmstepd's log contains TEXT after the step.
log_contains() { until_over && grep -qF "$1" "/run/muster-lab/$MUSTER_LAB/log/n0.slurmd"; }

# until_kept [INODE]: waits until n0 has cached a topology, in a file other than INODE.
until_kept() {
  # shellcheck disable=SC2034  # in the condition
  local before=${1:-} inode
  wait_until 'inode=$(on_node n0 stat -c %i /run/muster/topology 2>/dev/null) && [ "$inode" != "$before" ]'
}
kept() { until_kept && on_node n0 cat /run/muster/topology; }

@test "without /sys" {
  on_node n0 bash -c 'for folder in devices bus class; do mount -n -t tmpfs empty /sys/$folder; done'
  runs_unplaced "is sysfs mounted there?"
  ends_in_strict "is sysfs mounted there?"
  on_node n0 bash -c 'umount /sys/devices /sys/bus /sys/class'
  runs_placed
}

@test "with invalid topology files" {
  local file=$BATS_FILE_TMPDIR/topology.xml name
  declare -A content=(
    [empty]='' [text]='hello' [other]='<a/>' [cut]='<system version="1"><cpu numaid="0" '
    [bomb]='<!DOCTYPE s [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><s>&c;</s>'
  )
  plugstack "$(plugin) topology=$file"
  for name in "${!content[@]}"; do
    printf '%s' "${content[$name]}" >"$file"
    runs_unplaced "topology.xml"
  done
  truncate -s 100M "$file"
  runs_unplaced "topology.xml"
  rm "$file"
  runs_unplaced "topology.xml"
  mkdir "$file"
  runs_unplaced "topology.xml"
  rmdir "$file"
  mkfifo "$file"
  runs_unplaced "topology.xml"
  ends_in_strict "topology.xml"
}

@test "without memory" {
  local left # for the plan, in bytes
  for left in 0 1000 2000; do
    fault "starve=$left"
    runs_unplaced "memory"
  done
}

@test "with a read-only /run" {
  on_node n0 bash -c 'mount -n --rbind /run /run && mount -n -o remount,bind,ro /run'
  runs_placed
  log_contains "cannot be kept in /run/muster (Read-only file system)"
  on_node n0 umount -n -l /run
  runs_placed
  kept | grep -q '^muster topology'
}

@test "with a full /run" {
  on_node n0 bash -c 'mkdir -p /run/muster && mount -n -t tmpfs -o size=4k,mode=755 full /run/muster && printf "%4096s" > /run/muster/filler'
  runs_placed
  log_contains "cannot be kept in /run/muster (No space left on device)"
  run -0 on_node n0 ls -A /run/muster
  [ "$output" = filler ]
  on_node n0 umount -n /run/muster
}

@test "with a folder that a user owns, or a link in the file's place, root writes to neither" {
  on_node n0 bash -c 'mkdir /run/muster && chown 1000 /run/muster'
  runs_placed
  log_contains "cannot be kept in /run/muster (it is not root's alone to write)"
  [ -z "$(on_node n0 ls -A /run/muster)" ]
  on_node n0 bash -c 'chown 0 /run/muster && echo mine > /run/victim && ln -s /run/victim /run/muster/topology'
  runs_placed
  kept | grep -q '^muster topology'
  [ "$(on_node n0 cat /run/victim)" = mine ]
}

@test "a cached topology is used by the next step, and an edited one is not" {
  local first inode
  # A virtual machine may get memory while it runs, so the sizes of two readings may differ.
  kept_but_memory() { kept | sed -E 's/checksum [0-9a-f]+//; s/"memory_bytes":[0-9]+//g'; }
  runs_placed
  first=$(kept_but_memory)
  [ "$(on_node n0 stat -c '%a %u' /run/muster/topology /run/muster | paste -sd' ')" = "644 0 755 0" ]
  inode=$(on_node n0 stat -c %i /run/muster/topology)
  runs_placed
  until_over
  [ "$(on_node n0 stat -c %i /run/muster/topology)" = "$inode" ]
  on_node n0 sed -i 's/"minor":0/"minor":7/' /run/muster/topology
  [ "$(kept_but_memory)" != "$first" ]
  inode=$(on_node n0 stat -c %i /run/muster/topology)
  runs_placed
  until_kept "$inode"
  [ "$(kept_but_memory)" = "$first" ]
}

@test "two steps at once, both without a cached topology" {
  run on_lab bash -c "for i in 1 2; do srun -N1 -w n0 -n1 --gres=gpu:1 --muster=strict bash -c '$show' & done; wait"
  [ "$(grep -c 'placed$' <<<"$output")" = 2 ]
  kept | grep -q '^muster topology'
}

@test "files that a user can change are read by a process without privileges" {
  local out=$BATS_TEST_TMPDIR/planners file=$BATS_TEST_TMPDIR/topology.xml
  truncate -s 60M "$file" # takes a while to read, and is no topology
  plugstack "$(plugin) topology=$file"
  chmod go+x "$BATS_RUN_TMPDIR"
  on_node n0 python3 "$BATS_TEST_DIRNAME/planners.py" >"$out" 3>&- &
  wait_until 'on_lab setpriv --reuid=nobody --regid=nogroup --clear-groups srun -N1 -w n0 --muster=auto --chdir=/ true; [ -s "$out" ]'
  wait $!
  cat "$out"
  [ "$(<"$out")" = "Uid $(printf "$(id -u nobody) %.0s" 1 2 3 4)Gid $(printf "$(id -g nobody) %.0s" 1 2 3 4)CapPrm 0 CapEff 0 CapInh 0" ]
}

@test "a thousand tasks" {
  run on_lab srun -N2 -n1000 --overcommit --muster=auto sh -c 'echo "${MUSTER_SET:+placed}"'
  [ "$status" = 0 ]
  # All are placed, or none is and each node prints a line.
  [ "$(grep -cx placed <<<"$output")" = 1000 ] || [ "$(grep -c "Slurm's own binding stays" <<<"$output")" = 2 ]
}

@test "a task that is killed in its task_init" {
  fault kill-task
  run step --muster=auto
  [ "$status" = 137 ]
  [[ "$output" == *"task 0: Killed"* ]]
  plugstack "$(plugin)"
  runs_placed
}

@test "srun killed while the nodes plan" {
  local plans=$BATS_TEST_TMPDIR/plans status=0
  fault "slow-plan=$plans"
  on_lab bash -c 'echo $$ >"$0"; exec srun -N2 -n4 --gpus-per-task=1 --muster true' "$BATS_TEST_TMPDIR/pid" 3>&- &
  wait_until '[ -e "$plans" ]'
  on_node ctl kill -KILL "$(<"$BATS_TEST_TMPDIR/pid")"
  wait $! || status=$?
  [ "$status" = 137 ]
  rm "$plans"
  on_lab scancel --quiet --user root
  plugstack "$(plugin)"
  runs_placed
}
