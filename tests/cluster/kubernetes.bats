#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Kubernetes without Kubernetes: the lab's nodes are pods with their own host name, network and processes. They
# get the variables, the Secret, and (of the MPI Operator) the hostfile and sshd that a pod finds.
load setup

setup_file() {
  lab_up --nodes 2 --gpus 0
  export PODS=$BATS_FILE_TMPDIR
  (umask 077 && echo 9b1f04d2c7e85a36f20d8e4b7159ac63 >"$PODS/key")
  start_sshd
  allow_mpirun
}
teardown_file() { lab_down; }

# As the MPI Operator's images have it: a key of the job's own, and no check of host keys.
start_sshd() {
  ssh-keygen -q -t ed25519 -N '' -f "$PODS/id"
  cat >"$PODS/sshd_config" <<TEXT
HostKey $PODS/id
AuthorizedKeysFile $PODS/id.pub
StrictModes no
UsePAM no
PidFile none
TEXT
  printf '%s\n' "IdentityFile $PODS/id" 'StrictHostKeyChecking no' 'UserKnownHostsFile /dev/null' 'LogLevel ERROR' >"$PODS/ssh_config"
  for pod in n0 n1; do
    on_node $pod bash -c "mkdir -p /run/sshd && exec /usr/sbin/sshd -f '$PODS/sshd_config'"
    printf '%s slots=2\n' $pod >>"$PODS/hostfile"
  done
}

program() { echo "$MUSTER_BUILD/bin/joining_ranks"; }

# in_pods VARIABLE=VALUE…: starts the program in both pods, as the manifests do; % in a value is the pod's number.
# Its exit code is the first pod's. $WHAT: the program's argument.
in_pods() {
  local status=0
  together 2
  local command=("$MUSTER_BUILD/bin/muster" exec -- "$(program)" "${WHAT-}")
  on_node n1 env "${@//%/1}" "${command[@]}" 3>&- &
  on_node n0 env "${@//%/0}" "${command[@]}" || status=$?
  wait $! || true
  return $status
}

# operator_mpirun VARIABLE=VALUE…: mpirun as the MPI Operator's launcher starts it, with two slots on each pod. Where
# more ranks than slots are allowed, mpirun 5 puts all of them on the first pod.
operator_mpirun() {
  on_node ctl env -u PRTE_MCA_rmaps_default_mapping_policy K_MPI_JOB_ROLE=launcher OMPI_MCA_orte_default_hostfile="$PODS/hostfile" OMPI_MCA_orte_keep_fqdn_hostnames=true \
    OMPI_MCA_plm_rsh_args="-F $PODS/ssh_config" "$@" timeout 300 "$MPIRUN_WITH_RETRY" mpirun "$(program)"
}

@test "pods of a LeaderWorkerSet, a TrainJob, an Indexed Job and a Job of Volcano join, with the key of a Secret" {
  for variables in "LWS_WORKER_INDEX=% LWS_GROUP_SIZE=2 LWS_LEADER_ADDRESS=n0" \
    "PET_NODE_RANK=% PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_MASTER_ADDR=n0 PET_MASTER_PORT=29400" \
    "JOB_COMPLETION_INDEX=% WORLD_SIZE=2 MASTER_ADDR=n0" \
    "VK_TASK_INDEX=% VC_TASK_INDEX=% VC_GPU_RANKS_NUM=2 VC_GPU_RANKS_HOSTS=n0,n1"; do
    # shellcheck disable=SC2086 # words
    run -0 in_pods MUSTER_KEY_FILE="$PODS/key" $variables
    [[ "$output" == *"joined through address: 2 ranks on 2 hosts"* ]]
  done
}

@test "pods without a Secret, without rank 0's name, or with a file that is missing, get one line" {
  run in_pods LWS_WORKER_INDEX=% LWS_GROUP_SIZE=2 LWS_LEADER_ADDRESS=n0
  [ "$status" = 78 ]
  [ "$(grep -c . <<<"$output")" = 1 ]
  [[ "$output" == *"LWS_WORKER_INDEX=0, LWS_GROUP_SIZE=2 and LWS_LEADER_ADDRESS=n0 name a job over hosts but MUSTER_KEY is not set"*"Secret"* ]]
  run in_pods JOB_COMPLETION_INDEX=% WORLD_SIZE=2
  [ "$status" = 78 ]
  [ "$(grep -c . <<<"$output")" = 1 ]
  [[ "$output" == *"set MASTER_ADDR to the name of rank 0's pod"* ]]
  run in_pods MUSTER_KEY_FILE=/etc/muster/key JOB_COMPLETION_INDEX=% WORLD_SIZE=2 MASTER_ADDR=n0
  [ "$status" = 78 ]
  [ "$(grep -c . <<<"$output")" = 1 ]
  [[ "$output" == *"MUSTER_KEY_FILE=/etc/muster/key: it cannot be read"* ]]
}

@test "a manifest with more ranks than pods gets one line, which names the rank without a pod" {
  WHAT=briefly run in_pods MUSTER_KEY_FILE="$PODS/key" JOB_COMPLETION_INDEX=% WORLD_SIZE=3 MASTER_ADDR=n0
  echo "$output"
  [ "$status" = 75 ]
  [ "$(grep -c . <<<"$output")" = 1 ]
  [[ "$output" == *"rank 2"* ]]
}

@test "pods of Volcano that have no Secret, no number, one host name or several tasks, get one line of each first pod" {
  run in_pods VC_TASK_INDEX=% VC_RANKS_NUM=2 VC_RANKS_HOSTS=n0,n1
  [ "$status" = 78 ]
  [ "$(grep -c . <<<"$output")" = 1 ]
  [[ "$output" == *"VC_TASK_INDEX=0, VC_RANKS_NUM=2 and VC_RANKS_HOSTS=n0 name a job over hosts but MUSTER_KEY is not set"* ]]
  run in_pods MUSTER_KEY_FILE="$PODS/key" VC_TASK_INDEX=1 VC_RANKS_NUM=1 VC_RANKS_HOSTS=n0
  [ "$status" = 78 ]
  [ "$(sort -u <<<"$output" | grep -c .)" = 1 ]
  [[ "$output" == *"VC_TASK_INDEX=1, but VC_RANKS_NUM=1: leave out hostname"* ]]
  run in_pods MUSTER_KEY_FILE="$PODS/key" VC_TASK_INDEX=0 VC_MASTER_NUM=1 VC_MASTER_HOSTS=n0 VC_WORKER_NUM=1 VC_WORKER_HOSTS=n1
  [ "$status" = 78 ]
  [ "$(grep -c . <<<"$output")" = 2 ]
  [ "$(grep -c 'the Job of Volcano has 2 tasks (VC_.*_HOSTS, VC_.*_HOSTS), .*: make the pods of one task the ranks' <<<"$output")" = 2 ]
}

@test "an MPIJob runs on all pods, and one whose mpirun ignores the hostfile is refused" {
  local name=PMIX_IN_NO_POD=
  if [[ "$(mpirun --version)" == *") 4."* ]]; then
    name=OMPI_MCA_plm_rsh_agent=ssh
  else
    run operator_mpirun $name
    [ "$status" != 0 ]
    [[ "$output" == *"Open MPI 5"*"ignores OMPI_MCA_orte_default_hostfile"*"set PRTE_MCA_prte_default_hostfile=$PODS/hostfile"* ]]
    name=PRTE_MCA_prte_default_hostfile=$PODS/hostfile
  fi
  run -0 operator_mpirun "$name" PRTE_MCA_plm_ssh_args="-F $PODS/ssh_config"
  [[ "$output" == *"4 ranks on 2 hosts"* ]]
}
