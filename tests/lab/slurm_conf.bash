# SPDX-License-Identifier: Apache-2.0
# The lab's Slurm configuration: slurm.conf, gres.conf, cgroup.conf, plugstack.conf and hosts.
# shellcheck disable=SC2154 # the lab_* settings are declared in state.bash

CONTROLLER=ctl
SUBNET=10.66.0

# node_names COUNT: n0 n1 …
node_names() {
  local i
  for ((i = 0; i < $1; i++)); do printf 'n%d\n' "$i"; done
}

# address_of NODE
address_of() {
  if [[ $1 == "$CONTROLLER" ]]; then printf '%s.1\n' "$SUBNET"; else printf '%s.%d\n' "$SUBNET" $((10 + ${1#n})); fi
}

# write_hosts STATE
write_hosts() {
  local node names
  mapfile -t names < <(node_names "$lab_nodes")
  {
    echo "127.0.0.1 localhost"
    for node in "$CONTROLLER" "${names[@]}"; do printf '%s %s\n' "$(address_of "$node")" "$node"; done
  } >"$1/etc/hosts"
}

# machine_cpus: this machine's CPUs in Slurm's notation, "CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2
# ThreadsPerCore=1".
machine_cpus() {
  local line
  line=$(slurmd -C 2>/dev/null | grep -m1 -o 'CPUs=.*ThreadsPerCore=[0-9]*') || line="CPUs=$(nproc --all)"
  printf '%s\n' "$line"
}

# write_slurm_conf STATE EXTRA…: reads the lab_* settings. An extra line replaces ours of the same name,
# because Slurm warns about duplicates.
write_slurm_conf() {
  local state=$1 extra key line cpus proctrack=linuxproc task=none slurmd_parameters= gres=gpu:$((lab_gpus * (lab_mig > 0 ? lab_mig : 1))) kinds=gpu
  shift
  cpus=$(machine_cpus)
  if ((lab_cpus != $(nproc --all))); then
    cpus="CPUs=$lab_cpus Boards=1 SocketsPerBoard=1 CoresPerSocket=$lab_cpus ThreadsPerCore=1"
  fi
  if ((lab_cpus > $(nproc --all))); then
    slurmd_parameters=config_overrides
  else
    task=task/affinity
  fi
  if [[ $lab_isolate == on ]]; then
    proctrack=cgroup
    if [[ $task == none ]]; then task=task/cgroup; else task+=,task/cgroup; fi
  fi
  [[ $task != none ]] || task=task/none
  ((lab_shards == 0)) || gres+=,shard:$lab_shards kinds+=,shard
  cat >"$state/slurm.conf.ours" <<END
ClusterName=$lab_name
SlurmctldHost=$CONTROLLER
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=$state/nodes/$CONTROLLER/spool
SlurmdSpoolDir=$state/nodes/%n/spool
SlurmctldPidFile=$state/nodes/$CONTROLLER/slurmctld.pid
SlurmdPidFile=$state/nodes/%n/slurmd.pid
SlurmctldLogFile=$state/log/$CONTROLLER.slurmctld
SlurmdLogFile=$state/log/%n.slurmd
SlurmctldDebug=info
SlurmdDebug=info
MpiDefault=none
MailProg=/bin/true
ProctrackType=proctrack/$proctrack
TaskPlugin=$task
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=1,bf_interval=1,sched_min_interval=100000
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=30
MessageTimeout=60
InactiveLimit=600
KillWait=2
WaitTime=0
CompleteWait=0
MinJobAge=600
UnkillableStepTimeout=300
GresTypes=$kinds
${slurmd_parameters:+SlurmdParameters=$slurmd_parameters}
NodeName=n[0-$((lab_nodes - 1))] $cpus RealMemory=1024 Gres=$gres State=UNKNOWN
PartitionName=lab Nodes=ALL Default=YES OverSubscribe=NO MaxTime=INFINITE DefaultTime=INFINITE State=UP
END
  ((lab_gpus > 0)) || sed -i -e '/^GresTypes=/d' -e 's/ Gres=gpu:0//' "$state/slurm.conf.ours"
  for extra in "$@"; do
    key=${extra%%=*}
    case ${key,,} in nodename | partitionname) ;; *) sed -i "/^$key=/Id" "$state/slurm.conf.ours" ;; esac
  done
  {
    while read -r line; do [[ -z $line ]] || printf '%s\n' "$line"; done <"$state/slurm.conf.ours"
    for extra in "$@"; do printf '%s\n' "$extra"; done
  } >"$state/etc/slurm.conf"
  rm "$state/slurm.conf.ours"
}

# gpu_files GPU: prints a line for each device that Slurm allocates: the GPU itself, or its MIG instances.
gpu_files() {
  local instance caps
  ((lab_mig > 0)) || printf 'File=/dev/nvidia%d\n' "$1"
  for ((instance = 1; instance <= lab_mig; instance++)); do
    read -ra caps < <(mig_caps "$1" "$instance")
    printf 'MultipleFiles=/dev/nvidia%d,/dev/nvidia-caps/nvidia-cap%d,/dev/nvidia-caps/nvidia-cap%d\n' "$1" "${caps[@]}"
  done
}

# takes_any_cores: whether this Slurm accepts any Cores= for a GPU. From 23.11 on it drains a node if they are
# not whole sockets ("doesn't match socket boundaries").
takes_any_cores() {
  local version
  version=$(slurmctld -V)
  [[ $(printf '%s\n' 23.11 "${version##* }" | sort -V | head -n 1) != 23.11 ]]
}

# write_gres_conf STATE: GPU i gets the i-th part of the cores as Cores=. With fewer cores than GPUs there is
# no Cores=.
write_gres_conf() {
  local i first last near cores=$lab_cpus threads with_cores=true
  if ((lab_cpus == $(nproc --all))); then
    threads=$(machine_cpus | grep -o '[0-9]*$')
    cores=$((lab_cpus / threads))
  fi
  if ((cores < lab_gpus)) || ! takes_any_cores; then with_cores=false; fi
  for ((i = 0; i < lab_gpus; i++)); do
    first=$((i * cores / lab_gpus)) last=$(((i + 1) * cores / lab_gpus - 1))
    near=" Cores=$first"
    ((first == last)) || near+=-$last
    $with_cores || near=
    gpu_files "$i" | sed "s/^/Name=gpu /; s/\$/$near/"
  done >"$1/etc/gres.conf"
  ((lab_shards == 0)) || printf 'Name=shard Count=%d\n' "$lab_shards" >>"$1/etc/gres.conf"
}

# write_cgroup_conf STATE
write_cgroup_conf() {
  local version=$lab_cgroup cores=yes
  # Without this line slurmd looks for a mounted hierarchy and exits if there is none, although it does not
  # use it.
  [[ $version != none ]] || version=v1
  # A node that claims more CPUs than the machine has cannot be confined to them.
  ((lab_cpus <= $(nproc --all))) || cores=no
  {
    echo "CgroupPlugin=cgroup/$version"
    echo "CgroupMountpoint=/sys/fs/cgroup"
    [[ $version != v2 ]] || echo "IgnoreSystemd=yes"
    echo "ConstrainCores=$cores"
    echo "ConstrainDevices=yes"
    echo "ConstrainRAMSpace=no"
  } >"$1/etc/cgroup.conf"
}

# write_plugstack STATE
write_plugstack() {
  if [[ -n $lab_plugin ]]; then
    printf 'required %s%s\n' "$lab_plugin" "${lab_plugin_args:+ $lab_plugin_args}"
  fi >"$1/etc/plugstack.conf"
}
