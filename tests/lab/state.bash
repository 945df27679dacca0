# SPDX-License-Identifier: Apache-2.0
# Where a lab keeps what it knows, and who is alive. Sourced by every lab program.

# Not under /tmp: every node has a /tmp of its own, and this folder must be the same on all of them.
LAB_ROOT=/run/muster-lab

# The settings of a lab, written by lab up into the file "settings" of its folder and read back with load_settings.
# shellcheck disable=SC2034 # used by the programs that source this
{
  lab_name=${MUSTER_LAB:-lab} # which of several labs
  lab_nodes='' lab_gpus='' lab_cpus='' # whole numbers; GPUs and CPUs are per node
  lab_shards=0 lab_mig=0 # whole numbers: shards per node, MIG instances per GPU
  lab_cgroup='' lab_cgroup_reason='' # v1, v2 or none, and why none
  lab_isolate='' # on: Slurm holds tasks to their devices and cores
  lab_plugin='' lab_plugin_args='' # a line for plugstack.conf
  lab_owner='' # "PID STARTTIME" of the process that the lab ends with, or none
  lab_share=() # folders below /tmp and /run that nodes see too
}

load_settings() {
  # shellcheck source=/dev/null
  source "$1/settings"
}

# One clear line on standard error, and the end. After a Ctrl-C that lab up has noted the complaint would only be of what that broke off.
die() {
  [[ -n ${pending:-} ]] || printf 'lab: %s\n' "$*" >&2
  exit 1
}

state_of() { printf '%s/%s\n' "$LAB_ROOT" "$1"; }

# Seconds since boot with two decimals, without a fork: for deadlines and for the time shown.
now_ms() {
  local up
  read -r up _ </proc/uptime
  printf -v "$1" '%d' "$((10#${up/./} * 10))"
}

# process_mark PID: prints "PID STARTTIME", which names a process for good: a pid alone may be reused.
process_mark() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  # The name in brackets may hold spaces: count the fields after it. Field 3 is the state, field 22 the start time.
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

# first_line FILE: its first line, or nothing.
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

# lab_is_up STATE: its watcher lives.
lab_is_up() { [[ -d $1 ]] && is_alive "$(first_line "$1/watcher")"; }

# remove_state STATE: the folder, and the folder of all labs when this was the last one.
remove_state() {
  [[ $1 == "$LAB_ROOT"/?* ]] || return 1
  rm -rf --one-file-system -- "$1"
  rmdir -- "$LAB_ROOT" 2>/dev/null || true
}
