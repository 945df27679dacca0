# SPDX-License-Identifier: Apache-2.0
# The cgroups of a lab: finds a usable hierarchy, makes one folder for each node, and removes them.
#
# Every node gets its own folder below muster-lab.NAME and sees it as the root of /sys/fs/cgroup, so all that
# Slurm makes there stays inside the lab's folder, and labs with equal node names do not conflict.
# shellcheck disable=SC2034 # cgroup_version and cgroup_reason are results

CGROUP_MOUNT=/sys/fs/cgroup
# The controllers that Slurm's cgroup/v1 uses with the settings in slurm_conf.bash.
CGROUP_V1_CONTROLLERS=(freezer cpuset devices memory cpuacct)

# cgroup_find NAME: sets cgroup_version to v1, v2 or none, and cgroup_reason to the reason for none. Tries to
# make the lab's folder, because file modes are not reliable in a container.
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
  # A cgroup that holds processes cannot delegate controllers unless it is the machine's root.
  if ! cgroup_v2_delegate "$CGROUP_MOUNT" probe; then
    cgroup_reason="cgroup v2 root holds processes and cannot delegate controllers"
    return
  fi
  cgroup_version=v2
}

# cgroup_v2_delegate FOLDER [probe]: enables the controllers that Slurm needs in the folders below. A probe
# disables them again. Slurm 22.05 misreads the last name of the list, so pids comes after the necessary ones.
cgroup_v2_delegate() {
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

# cgroup_make VERSION NAME STATE NODE…: makes the folders of a lab.
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
      cgroup_v2_delegate "$CGROUP_MOUNT"
      # Saved so that cgroup_remove can restore the machine's root.
      printf '%s\n' "$cgroup_added" >"$state/cgroup-added"
      mkdir "$CGROUP_MOUNT/muster-lab.$name"
      cgroup_v2_delegate "$CGROUP_MOUNT/muster-lab.$name"
      for node in "$@"; do mkdir -p "$CGROUP_MOUNT/muster-lab.$name/$node"/{outside,daemons,slurmd}; done
      ;;
  esac
}

# cgroup_enter VERSION NAME NODE: moves this process into the node's folders; a new cgroup namespace then uses
# them as its root.
cgroup_enter() {
  local controller
  case $1 in
    v1) for controller in "${CGROUP_V1_CONTROLLERS[@]}"; do echo 0 >"$CGROUP_MOUNT/$controller/muster-lab.$2/$3/cgroup.procs"; done ;;
    v2) echo 0 >"$CGROUP_MOUNT/muster-lab.$2/$3/cgroup.procs" ;;
  esac
}

# cgroup_settle VERSION NAME NODE: in that namespace, moves this process out of the root, which must be empty
# so that Slurm can delegate controllers.
cgroup_settle() {
  [[ $1 != v2 ]] || echo 0 >"$CGROUP_MOUNT/muster-lab.$2/$3/outside/cgroup.procs"
}

# cgroup_join VERSION FOLDER: in the node, moves this process to FOLDER. Slurm 24.11 and later refuses a
# folder for slurmd with processes from outside the node's process namespace, and 26.05 one with any other
# process.
cgroup_join() {
  [[ $1 != v2 ]] || echo 0 >"$CGROUP_MOUNT/$2/cgroup.procs"
}

# cgroup_show VERSION NAME NODE: inside a node with a fresh /sys, makes the node's folders its cgroup root.
# $4 is a path at which the machine's /sys is still mounted.
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
      # As systemd does on a real node: Slurm makes its own folders in system.slice. A step's folder stays
      # after the step, because Slurm leaves it through the root, which only the machine's real root allows;
      # it is removed with the lab.
      mkdir "$CGROUP_MOUNT/system.slice"
      cgroup_v2_delegate "$CGROUP_MOUNT"
      cgroup_v2_delegate "$CGROUP_MOUNT/system.slice"
      ;;
    none) mount -n -t tmpfs -o mode=755 lab-cgroup "$CGROUP_MOUNT" ;;
  esac
}

# cgroup_remove NAME STATE: removes all folders of a lab, deepest first. Processes that have just ended keep a
# folder busy for a moment.
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
