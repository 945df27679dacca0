# SPDX-License-Identifier: Apache-2.0
# lab up: options, requirements on the machine, start and wait.
# shellcheck disable=SC2154 # cgroup_version and cgroup_reason are set by cgroup_find

up_usage() { die "$1 (see lab --help)"; }

# check_integer OPTION VALUE MIN MAX
check_integer() {
  if [[ $2 =~ ^[0-9]{1,6}$ ]] && ((10#$2 >= $3 && 10#$2 <= $4)); then return; fi
  up_usage "$1 must be an integer between $3 and $4, not \"$2\""
}

# Options that only lab up needs; the lab_* settings are in state.bash.
verbose='' isolate=auto owner_pid=$PPID etc='' slurm_conf_lines=()
# The received signal, whether the lab's folder is ours, and whether lab up has succeeded.
pending='' claimed='' finished=''

up_options() {
  while (($# > 0)); do
    case $1 in
      --nodes | --gpus | --cpus | --shards | --mig | --name | --plugin | --plugin-args | --owner | --share | --etc)
        (($# > 1)) || up_usage "$1 needs a value"
        ;;&
      --nodes) lab_nodes=$2 ;;
      --gpus) lab_gpus=$2 ;;
      --cpus) lab_cpus=$2 ;;
      --shards) lab_shards=$2 ;;
      --mig) lab_mig=$2 ;;
      --name) lab_name=$2 ;;
      --plugin) lab_plugin=$2 ;;
      --plugin-args) lab_plugin_args=$2 ;;
      --owner) owner_pid=$2 ;;
      --share) lab_share+=("$2") ;;
      --etc) etc=$2 ;;
      --isolate) isolate=on ;;
      --no-isolate) isolate=off ;;
      --verbose) verbose=1 ;;
      *) up_usage "unknown option $1" ;;
    esac
    case $1 in --isolate | --no-isolate | --verbose) shift ;; *) shift 2 ;; esac
  done
  [[ -n $lab_nodes ]] || up_usage "--nodes is missing"
  [[ -n $lab_gpus ]] || up_usage "--gpus is missing"
  check_integer --nodes "$lab_nodes" 1 64
  check_integer --gpus "$lab_gpus" 0 16
  check_integer --shards "$lab_shards" 0 1024
  check_integer --mig "$lab_mig" 0 7
  ((10#$lab_gpus > 0 || 10#$lab_shards + 10#$lab_mig == 0)) || up_usage "--shards and --mig need GPUs, but --gpus is 0"
  check_integer MUSTER_LAB_DEADLINE "$lab_deadline" 1 3600
  [[ -z $lab_cpus ]] || check_integer --cpus "$lab_cpus" 1 4096
  # 10#: a leading zero does not mean octal.
  lab_nodes=$((10#$lab_nodes)) lab_gpus=$((10#$lab_gpus)) lab_deadline=$((10#$lab_deadline)) lab_shards=$((10#$lab_shards)) lab_mig=$((10#$lab_mig)) lab_cpus=$((10#${lab_cpus:-$(nproc --all)}))
  check_name
  up_check_values
}

up_check_values() {
  local folder
  [[ -n $lab_plugin || -z $lab_plugin_args ]] || up_usage "--plugin-args without --plugin"
  if [[ -n $lab_plugin ]]; then
    [[ -f $lab_plugin ]] || die "no plugin at $lab_plugin (build it, or name another with --plugin)"
    lab_plugin=$(readlink -f -- "$lab_plugin")
  fi
  [[ -z $etc ]] || up_read_etc
  for folder in "${lab_share[@]}"; do
    [[ -d $folder ]] || die "--share $folder: no such folder"
  done
  if [[ $owner_pid == none ]]; then
    lab_owner=none
  else
    [[ $owner_pid =~ ^[0-9]{1,9}$ ]] || up_usage "--owner must be a process id or none, not \"$owner_pid\""
    lab_owner=$(process_mark "$owner_pid") || die "the owner, process $owner_pid, is not running (--owner)"
  fi
}

# up_read_etc: reads the lines for slurm.conf, without comments. Reads once, because FILE may be a pipe.
up_read_etc() {
  local file=$etc extra
  if [[ -d $etc ]]; then
    file=$etc/slurm.conf
    [[ -e $file ]] || return 0
  fi
  [[ -r $file ]] || die "--etc: cannot read $file"
  mapfile -t slurm_conf_lines < <(grep -vE '^[[:space:]]*(#|$)' -- "$file")
  for extra in "${slurm_conf_lines[@]}"; do
    [[ $extra =~ ^[A-Za-z]+=.+$ ]] || up_usage "--etc: each line of $file must be Name=value, not \"$extra\""
  done
}

# Isolation of devices and cores needs a writable cgroup hierarchy.
up_isolation() {
  lab_cgroup=none lab_isolate=off lab_cgroup_reason="not requested"
  [[ $isolate != off ]] || return 0
  cgroup_find "$lab_name"
  lab_cgroup=$cgroup_version lab_cgroup_reason=$cgroup_reason
  if [[ $lab_cgroup != none ]]; then
    lab_isolate=on
  elif [[ $isolate == on ]]; then
    die "--isolate: $cgroup_reason"
  fi
}

up_check_machine() {
  local command missing=() error
  ((EUID == 0)) || die "needs root (it makes namespaces, network links and device files)"
  for command in slurmctld:slurmctld slurmd:slurmd sinfo:slurm-client munged:munge ip:iproute2 nsenter:util-linux setpriv:util-linux; do
    command -v "${command%%:*}" >/dev/null || missing+=("${command#*:}")
  done
  ((${#missing[@]} == 0)) || die "packages are missing: ${missing[*]}"
  error=$(unshare --pid --net --mount --uts --ipc --cgroup --fork mount -t tmpfs lab-probe /mnt 2>&1) ||
    die "namespaces are refused here (${error##*$'\n'}): needs CAP_SYS_ADMIN, for example a virtual machine or docker run --privileged"
  error=$(unshare --mount bash -c 'mount -t tmpfs lab-probe /mnt && mknod /mnt/gpu c 195 0' 2>&1) ||
    die "device files are refused here (${error##*$'\n'}): needs CAP_MKNOD, for example a virtual machine or docker run --privileged"
  error=$(unshare --net bash -c 'ip link add lab-b type bridge && ip link add lab-0 type veth peer name lab-1' 2>&1) ||
    die "network links are refused here (${error##*$'\n'}): needs CAP_NET_ADMIN and the kernel's bridge and veth"
}

# The lab's folder is its lock: only one process can make it.
up_claim_state() {
  local attempt
  state=$(state_of "$lab_name")
  for ((attempt = 0; attempt < 3; attempt++)); do
    mkdir -p "$LAB_ROOT"
    if mkdir "$state" 2>/dev/null; then
      claimed=1
      # Cgroups remain if the machine's /run was emptied while a lab was up.
      cgroup_remove "$lab_name" "$state"
      return
    fi
    [[ -d $state ]] || continue
    # A watcher writes its mark within moments. A folder without a mark remains from a killed watcher.
    pause 0.5
    ! lab_is_up "$state" || die "a lab named $lab_name is already up (lab down --name $lab_name, or choose another --name)"
    clean_up_dead "$lab_name"
  done
  die "cannot make $state"
}

# Folders below /tmp and /run that jobs need, although nodes have their own /tmp and /run.
up_find_shares() {
  local folder real
  local -a wanted=("$here/../.." "$PWD" "${HOME:-/root}" "${MUSTER_BUILD:-}" "${lab_plugin:+$(dirname -- "$lab_plugin")}" "${lab_share[@]}")
  lab_share=()
  for folder in "${wanted[@]}"; do
    [[ -n $folder && -d $folder ]] || continue
    real=$(readlink -f -- "$folder")
    [[ $real != /tmp/* && $real != /run/* ]] || lab_share+=("$real")
  done
}

up_write() {
  local node
  mkdir -p "$state/etc" "$state/log"
  for node in "$CONTROLLER" $(node_names "$lab_nodes"); do mkdir -p "$state/nodes/$node/spool"; done
  declare -p lab_name lab_nodes lab_gpus lab_cpus lab_shards lab_mig lab_cgroup lab_cgroup_reason lab_isolate lab_plugin lab_plugin_args lab_owner lab_deadline lab_share |
    sed 's/^declare /declare -g /' >"$state/settings"
  (umask 077 && head -c 128 /dev/urandom >"$state/etc/munge.key")
  : >"$state/etc/resolv.conf"
  write_hosts "$state"
  write_slurm_conf "$state" "${slurm_conf_lines[@]}"
  write_gres_conf "$state"
  write_cgroup_conf "$state"
  write_plugstack "$state"
  [[ ! -d $etc ]] || find "$etc" -maxdepth 1 -type f ! -name slurm.conf -exec cp -t "$state/etc" -- {} +
}

phase() {
  [[ -z $verbose ]] || { now_ms now && printf 'lab: %5d ms %s\n' "$((now - started))" "$1"; }
}

# show_failure REASON [LOG]: prints the last lines of the log at fault, then one line.
show_failure() {
  local reason=$1 log=${2:-}
  # A daemon that has not read its configuration yet has written only to stderr.
  [[ -s $state/log/$log ]] || log+=.start
  if [[ -s $state/log/$log ]]; then
    printf -- '--- last lines of %s ---\n' "$log" >&2
    tail -n 12 "$state/log/$log" >&2
  fi
  die "did not come up: $reason"
}

# Waits until Slurm reports every node idle; when the deadline passes, fails with the component at fault.
up_wait() {
  local now deadline=$((started + lab_deadline * 1000)) fault states node
  phase "configuration written"
  while :; do
    stop_if_signalled
    now_ms now
    if [[ -s $state/failed ]]; then
      fault=$(first_line "$state/failed")
      show_failure "${fault#* } (${fault%% *})" "${fault%% *}"
    fi
    lab_is_up "$state" || show_failure "its watcher ended" lab.init
    if [[ -s $state/nodes/$CONTROLLER/pid ]]; then
      states=$(in_node "$state" "$CONTROLLER" timeout 5 sinfo -h -N -o '%N %T' 2>/dev/null </dev/null) || states=
      [[ $(grep -c ' idle$' <<<"$states") != "$lab_nodes" ]] || break
    fi
    if ((now > deadline)); then
      for node in "$CONTROLLER" $(node_names "$lab_nodes"); do
        [[ -s $state/nodes/$node/pid ]] || show_failure "node $node was not set up in $lab_deadline s" "$node.setup"
      done
      [[ -n $states ]] || show_failure "slurmctld did not answer in $lab_deadline s" "$CONTROLLER.slurmctld"
      node=$(grep -v ' idle$' <<<"$states" | head -n 1)
      show_failure "node ${node% *} is ${node#* } after $lab_deadline s" "${node% *}.slurmd"
    fi
    pause 0.05
  done
  phase "all nodes idle"
}

lab_up() {
  local now started names=()
  now_ms started
  trap up_leave EXIT
  # The traps only record the signal: bash 5.2 can crash when a trap exits out of read -t.
  trap 'pending=INT' INT
  trap 'pending=TERM' TERM
  up_options "$@"
  up_check_machine
  up_claim_state
  up_isolation
  up_find_shares
  up_write
  mapfile -t names < <(node_names "$lab_nodes")
  cgroup_make "$lab_cgroup" "$lab_name" "$state" "$CONTROLLER" "${names[@]}"
  setsid "$here/watch" "$state" >"$state/log/lab.watch" 2>&1 </dev/null &
  up_wait_for_watcher
  up_wait
  now_ms now
  up_summary $((now - started))
  finished=1
}

stop_if_signalled() { [[ -z $pending ]] || exit 1; }

# If lab up ends early, removes everything. Raises a received signal again, so that a calling script sees it
# and ends too.
up_leave() {
  local status=$?
  # The lab is up: from here a signal has its default effect.
  if [[ -n $finished && -z $pending ]]; then
    trap - INT TERM
    exit "$status"
  fi
  trap '' INT TERM
  if [[ -n $claimed && (-z $finished || -n $pending) ]]; then take_down "$lab_name" || true; fi
  [[ -z $pending ]] || { trap - "$pending" && kill -s "$pending" $$; }
  exit "$status"
}

up_wait_for_watcher() {
  local i
  for ((i = 0; i < lab_deadline * 100; i++)); do
    stop_if_signalled
    [[ ! -s $state/watcher ]] || return 0
    pause 0.01
  done
  show_failure "its watcher did not start" lab.watch
}

up_summary() {
  local cgroup="cgroup $lab_cgroup" names
  [[ $lab_cgroup != none ]] || cgroup="no cgroup ($lab_cgroup_reason)"
  names=$(node_names "$lab_nodes" | paste -sd,)
  ((lab_nodes <= 4)) || names="n0…n$((lab_nodes - 1))"
  printf 'lab %s: %d node%s (%s), %d fake GPU%s and %d CPU%s a node, %s, isolation %s, ends with %s, up in %d.%d s\n' "$lab_name" \
    "$lab_nodes" "$( ((lab_nodes == 1)) || echo s)" "$names" \
    "$lab_gpus" "$( ((lab_gpus == 1)) || echo s)" "$lab_cpus" "$( ((lab_cpus == 1)) || echo s)" \
    "$cgroup" "$lab_isolate" "$(describe_owner)" $(($1 / 1000)) $(($1 % 1000 / 100))
}
