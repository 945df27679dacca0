# SPDX-License-Identifier: Apache-2.0
# Entering a node of a running lab.

# load_lab NAME: reads the settings of a lab that is up, or fails.
load_lab() {
  state=$(state_of "$1")
  lab_is_up "$state" || die "no lab named $1 is up (start one: lab up --name $1 --nodes 2 --gpus 2)"
  load_settings "$state"
}

# in_node STATE NODE CMD…: replaces this process by a command in the node. The command gets SIGTERM when this
# process dies, even by kill -9.
in_node() {
  local mark
  mark=$(first_line "$1/nodes/$2/pid")
  is_alive "$mark" || die "node $2 is not running"
  # TMPDIR names a folder of the caller's machine, but each node has its own /tmp. The inner shell expands its
  # own arguments.
  # shellcheck disable=SC2016
  local go='cd "$1" 2>/dev/null || { echo "lab: $1 is not visible on $(hostname): share it with lab up --share" >&2; exit 1; }
    shift
    exec "$@"'
  SLURM_CONF=$1/etc/slurm.conf exec nsenter --target "${mark% *}" --all -- \
    setpriv --pdeathsig TERM env -u TMPDIR bash -c "$go" lab "$PWD" "${@:3}"
}
