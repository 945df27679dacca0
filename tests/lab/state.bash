# SPDX-License-Identifier: Apache-2.0
# A lab's folder and settings, and checks of its processes. Sourced by every lab program.

# Not under /tmp: every node has its own /tmp, and all nodes must share this folder.
LAB_ROOT=/run/muster-lab

# The settings of a lab, written by lab up into the file "settings" of its folder and read back with
# load_settings.
# shellcheck disable=SC2034 # used by the programs that source this
{
  lab_name=${MUSTER_LAB:-lab} # this lab's name
  lab_nodes='' lab_gpus='' lab_cpus='' # integers; GPUs and CPUs are per node
  lab_shards=0 lab_mig=0 # integers: shards per node, MIG instances per GPU
  lab_cgroup='' lab_cgroup_reason='' # v1, v2 or none, and the reason for none
  lab_isolate='' # on: Slurm confines tasks to their devices and cores
  lab_plugin='' lab_plugin_args='' # a line for plugstack.conf
  lab_owner='' # "PID STARTTIME" of the process that the lab ends with, or none
  lab_deadline=${MUSTER_LAB_DEADLINE:-30} # seconds until it must be up
  lab_share=() # folders below /tmp and /run that nodes share
}

load_settings() {
  # shellcheck source=/dev/null
  source "$1/settings"
}

# Prints one line to stderr and exits. After a Ctrl-C recorded by lab up it prints nothing: the error would
# only be its consequence.
die() {
  [[ -n ${pending:-} ]] || printf 'lab: %s\n' "$*" >&2
  exit 1
}

state_of() { printf '%s/%s\n' "$LAB_ROOT" "$1"; }

# now_ms VARIABLE: sets it to the milliseconds since boot, without a fork: for deadlines and printed times.
now_ms() {
  local up
  read -r up _ </proc/uptime
  printf -v "$1" '%d' "$((10#${up/./} * 10))"
}

# process_mark PID: prints "PID STARTTIME", which identifies a process uniquely: a pid alone may be reused.
process_mark() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  # The name in brackets may contain spaces: count the fields after it. Field 3 is the state, field 22 the
  # start time.
  local -a fields
  read -ra fields <<<"${stat##*) }"
  [[ ${fields[0]} != Z ]] || return 1
  printf '%s %s\n' "${stat%% *}" "${fields[19]}"
}

# is_alive "PID STARTTIME"
is_alive() {
  local stat
  [[ -n ${1:-} ]] || return 1
  { read -r stat <"/proc/${1%% *}/stat"; } 2>/dev/null || return 1
  local -a fields
  read -ra fields <<<"${stat##*) }"
  [[ ${fields[0]} != Z && ${fields[19]} == "${1##* }" ]]
}

# first_line FILE: prints its first line, or an empty line.
first_line() {
  local line=
  { read -r line <"$1"; } 2>/dev/null || true
  printf '%s\n' "$line"
}

# pause SECONDS: sleeps without starting a process.
pause() {
  [[ -n ${pause_fd:-} ]] || exec {pause_fd}<> <(:)
  read -rt "$1" -u "$pause_fd" || true
}

# lab_is_up STATE: whether its watcher is alive.
lab_is_up() { [[ -d $1 ]] && is_alive "$(first_line "$1/watcher")"; }

# remove_state STATE: removes the folder, and after the last lab the folder of all labs.
remove_state() {
  [[ $1 == "$LAB_ROOT"/?* ]] || return 1
  rm -rf --one-file-system -- "$1"
  rmdir -- "$LAB_ROOT" 2>/dev/null || true
}
