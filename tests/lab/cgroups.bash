# SPDX-License-Identifier: Apache-2.0
# The cgroups of a lab: which hierarchy can be used here, one folder for each node, and their removal.
#
# Every node gets a folder of its own below muster-lab.NAME and sees it as the root of /sys/fs/cgroup, so whatever Slurm makes there stays
# inside the lab's folder and labs with equal node names do not meet.
# shellcheck disable=SC2034 # cgroup_version and cgroup_reason are results

CGROUP_MOUNT=/sys/fs/cgroup
# What Slurm's cgroup/v1 uses with the settings in slurm_conf.bash.
CGROUP_V1_CONTROLLERS=(freezer cpuset devices memory cpuacct)

# cgroup_find NAME: sets cgroup_version to v1, v2 or none, and cgroup_reason to why none. Tries it in the lab's own folder, since file modes
# say little in a container.
cgroup_find() {
  cgroup_version=none cgroup_reason=
  local probe=muster-lab.$1
  if [[ $(stat -fc %T "$CGROUP_MOUNT" 2>/dev/null) == cgroup2fs ]]; then
    cgroup_find_v2 "$probe"
  elif [[ -d $CGROUP_MOUNT/freezer ]]; then
    cgroup_find_v1 "$probe"
  else
    cgroup_reason="no cgroup hierarchy at $CGROUP_MOUNT"
  fi
}

cgroup_find_v1() {
  local controller folder
  for controller in "${CGROUP_V1_CONTROLLERS[@]}"; do
    folder=$CGROUP_MOUNT/$controller
    if [[ ! -e $folder/cgroup.procs ]]; then
      cgroup_reason="cgroup v1 without the controller $controller"
      return
    fi
    if ! mkdir "$folder/$1" 2>/dev/null; then
      cgroup_reason="cgroup v1 cannot be written ($folder)"
      return
    fi
    if [[ $controller == devices ]] && ! { echo 'c 195:* rwm' >"$folder/$1/devices.allow"; } 2>/dev/null; then
      cgroup_reason="cgroup v1 cannot change device rights"
    fi
    rmdir "$folder/$1"
    [[ -z $cgroup_reason ]] || return 0
  done
  cgroup_version=v1
}

cgroup_find_v2() {
  local controller
  for controller in cpuset cpu memory; do
    if [[ " $(<"$CGROUP_MOUNT/cgroup.controllers") " != *" $controller "* ]]; then
      cgroup_reason="cgroup v2 without the controller $controller"
      return
    fi
  done
  if ! mkdir "$CGROUP_MOUNT/$1" 2>/dev/null; then
    cgroup_reason="cgroup v2 cannot be written"
    return
  fi
  rmdir "$CGROUP_MOUNT/$1"
  # A folder that holds processes cannot hand on controllers unless it is the root of the machine.
  if ! cgroup_v2_hand_on "$CGROUP_MOUNT" probe; then
    cgroup_reason="cgroup v2 root holds processes and cannot hand on controllers"
    return
  fi
  cgroup_version=v2
}

# cgroup_v2_hand_on FOLDER [probe]: enables what Slurm needs for the folders below. A probe takes back what it enabled.
# Slurm 22.05 misreads the last name of the list, hence pids after those that count.
cgroup_v2_hand_on() {
  local controller added=
  for controller in cpuset cpu memory pids; do
    [[ " $(<"$1/cgroup.controllers") " == *" $controller "* ]] || continue
    [[ " $(<"$1/cgroup.subtree_control") " != *" $controller "* ]] || continue
    { echo "+$controller" >"$1/cgroup.subtree_control"; } 2>/dev/null || return 1
    added+=" -$controller"
  done
  if [[ ${2:-} == probe && -n $added ]]; then
    { echo "$added" >"$1/cgroup.subtree_control"; } 2>/dev/null || true
  fi
  cgroup_added=$added
}

# cgroup_make VERSION NAME STATE NODE…: the folders of a lab.
cgroup_make() {
  local version=$1 name=$2 state=$3 node controller top
  shift 3
  case $version in
    v1)
      for controller in "${CGROUP_V1_CONTROLLERS[@]}"; do
        top=$CGROUP_MOUNT/$controller
        mkdir "$top/muster-lab.$name"
        for node in "$@"; do mkdir "$top/muster-lab.$name/$node"; done
        [[ $controller == cpuset ]] || continue
        for node in "" "$@"; do
          cat "$top/cpuset.cpus" >"$top/muster-lab.$name/$node/cpuset.cpus"
          cat "$top/cpuset.mems" >"$top/muster-lab.$name/$node/cpuset.mems"
        done
      done
      ;;
    v2)
      cgroup_v2_hand_on "$CGROUP_MOUNT"
      # Kept for the end: the machine's root gets back what it was.
      printf '%s\n' "$cgroup_added" >"$state/cgroup-added"
      mkdir "$CGROUP_MOUNT/muster-lab.$name"
      cgroup_v2_hand_on "$CGROUP_MOUNT/muster-lab.$name"
      for node in "$@"; do mkdir -p "$CGROUP_MOUNT/muster-lab.$name/$node"/{outside,daemons,slurmd}; done
      ;;
  esac
}

# cgroup_enter VERSION NAME NODE: moves this process into the node's folders, which a new cgroup namespace then takes for its root.
cgroup_enter() {
  local controller
  case $1 in
    v1) for controller in "${CGROUP_V1_CONTROLLERS[@]}"; do echo 0 >"$CGROUP_MOUNT/$controller/muster-lab.$2/$3/cgroup.procs"; done ;;
    v2) echo 0 >"$CGROUP_MOUNT/muster-lab.$2/$3/cgroup.procs" ;;
  esac
}

# cgroup_settle VERSION NAME NODE: in that namespace. The root may hold no process while Slurm hands on controllers below it.
cgroup_settle() {
  [[ $1 != v2 ]] || echo 0 >"$CGROUP_MOUNT/muster-lab.$2/$3/outside/cgroup.procs"
}

# cgroup_join VERSION FOLDER: in the node, moves this process. Slurm from 24.11 on refuses a folder for slurmd that has processes from outside the
# node's process namespace, and 26.05 one that has any other.
cgroup_join() {
  [[ $1 != v2 ]] || echo 0 >"$CGROUP_MOUNT/$2/cgroup.procs"
}

# cgroup_show VERSION NAME NODE: inside a node with a fresh /sys, makes the node's folders its cgroup root.
# $4 is where the machine's /sys can still be seen.
cgroup_show() {
  local controller
  case $1 in
    v1)
      mount -n -t tmpfs -o mode=755 lab-cgroup "$CGROUP_MOUNT"
      for controller in "${CGROUP_V1_CONTROLLERS[@]}"; do
        mkdir "$CGROUP_MOUNT/$controller"
        mount -n --bind "$4/fs/cgroup/$controller/muster-lab.$2/$3" "$CGROUP_MOUNT/$controller"
      done
      ;;
    v2)
      mount -n --bind "$4/fs/cgroup/muster-lab.$2/$3" "$CGROUP_MOUNT"
      # What systemd does on a real node: Slurm makes its own folders in system.slice. A step's folder stays there when it ends, as Slurm wants
      # to leave it by way of the root, which only the machine's real root allows; it goes with the lab.
      mkdir "$CGROUP_MOUNT/system.slice"
      cgroup_v2_hand_on "$CGROUP_MOUNT"
      cgroup_v2_hand_on "$CGROUP_MOUNT/system.slice"
      ;;
    none) mount -n -t tmpfs -o mode=755 lab-cgroup "$CGROUP_MOUNT" ;;
  esac
}

# cgroup_remove NAME STATE: all folders of a lab, deepest first. Processes that have just ended hold a folder for a moment.
cgroup_remove() {
  local top attempt
  for top in "$CGROUP_MOUNT/muster-lab.$1" "$CGROUP_MOUNT"/*/"muster-lab.$1"; do
    for ((attempt = 0; attempt < 50; attempt++)); do
      [[ -d $top ]] || continue 2
      find "$top" -depth -type d -exec rmdir {} + 2>/dev/null || true
      [[ -d $top ]] || continue 2
      pause 0.1
    done
    printf 'lab: cgroup %s could not be removed\n' "$top" >&2
  done
  local added
  added=$(first_line "$2/cgroup-added")
  [[ -z $added ]] || { echo "$added" >"$CGROUP_MOUNT/cgroup.subtree_control"; } 2>/dev/null || true
}
