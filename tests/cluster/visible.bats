#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The GPUs that a script sees, and their order (visible=own|node), on a real Slurm of two nodes with four GPUs
# and eight (claimed) CPUs per node. The GPUs are fake: device files, and the driver's files about them.
load setup

setup_file() { lab_up --nodes 2 --gpus 4 --cpus 8 --plugin "$(plugin)"; }
teardown_file() { lab_down; }

# counted: prints the GPUs that the task can open, by PCI address, in CUDA's order.
task='cd /proc/driver/nvidia/gpus; for gpu in *; do
    minor=$(sed -n "s/^Device Minor:[[:space:]]*//p" "$gpu/information")
    { : <"/dev/nvidia$minor"; } 2>&1 | grep -q "No such device" && counted+=("$gpu")
  done
  IFS=, read -ra shown <<<"$CUDA_VISIBLE_DEVICES"; IFS=, read -ra mine <<<"$MUSTER_GPUS"
  echo "$SLURM_PROCID count=${#shown[@]}"
  echo "$SLURM_PROCID list=$CUDA_VISIBLE_DEVICES"
  echo "$SLURM_PROCID jax=${JAX_LOCAL_DEVICE_IDS-unset}"
  own=""; for i in "${!shown[@]}"; do for gpu in "${mine[@]}"; do [ "${counted[${shown[i]}]}" != "$gpu" ] || own+=$i,; done; done
  echo "$SLURM_PROCID own=${own%,}"'

each() { printf '%s' "$1"; for ((i = 1; i < $2; i++)); do printf ' %s' "$1"; done; }

@test "with --gres, --gpus-per-node and --gpus a task sees all GPUs, its own at its local rank, as scripts without the plugin expect" {
  for option in --gres=gpu:4 --gpus-per-node=4 --gpus=8; do
    run lab exec srun -N2 -n8 --ntasks-per-node=4 $option --muster=strict bash -c "$task"
    [ "$status" = 0 ]
    [ "$(value count)" = "$(each 4 8)" ]
    [ "$(value own)" = "0 1 2 3 0 1 2 3" ]
    [ "$(value jax)" = "0 1 2 3 0 1 2 3" ]
    # One list for all tasks of a node.
    [ "$(value list | cut -d' ' -f1-4 | tr ' ' '\n' | sort -u | wc -l)" = 1 ]
  done
}

@test "with --gpus-per-task and similar options a task sees only its own GPU" {
  for option in --gpus-per-task=1 "--ntasks-per-node=4 --gres=gpu:4 --gpu-bind=per_task:1"; do
    # shellcheck disable=SC2086  # words
    run lab exec srun -N2 -n8 $option --muster=strict bash -c "$task"
    [ "$status" = 0 ]
    [ "$(value jax)" = "$(each 0 8)" ]
    [ "$(value count)" = "$(each 1 8)" ]
  done
}

# Up to 24.11 these are all GPUs of the step, whatever --gpu-bind says.
@test "a task alone on its node sees the GPUs that Slurm alone shows it" {
  for binding in map_gpu:1 single:1; do
    # From 24.11 on a task finds the option in SLURM_TRES_BIND, too.
    for form in "srun --gpu-bind=$binding" "env SLURM_TRES_BIND=gres/gpu:$binding srun --gpu-bind=$binding"; do
      # shellcheck disable=SC2086  # words
      run lab exec $form -N1 -n1 --gres=gpu:4 --muster=off bash -c "$task"
      alone=$(value count)
      # shellcheck disable=SC2086  # words
      run lab exec $form -N1 -n1 --gres=gpu:4 --muster=strict bash -c "$task"
      [ "$status" = 0 ]
      [ "$(value count)/$(value own)" = "$alone/0" ]
    done
  done
}

@test "visible= overrides this, on the command line and in plugstack.conf" {
  run lab exec srun -N1 -n4 --gpus-per-task=1 --muster=strict,visible=node bash -c "$task"
  [ "$status" = 0 ]
  [ "$(value count)/$(value own)" = "4 4 4 4/0 1 2 3" ]
  run lab exec srun -N1 -n4 --gres=gpu:4 --muster=strict,visible=own bash -c "$task"
  [ "$status" = 0 ]
  [ "$(value count)/$(value own)" = "1 1 1 1/0 0 0 0" ]
  echo "required $(plugin) default=auto,visible=own" >"/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"
  run lab exec srun -N1 -n4 --gres=gpu:4 bash -c "$task"
  echo "required $(plugin)" >"/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"
  [ "$status" = 0 ]
  [ "$(value count)" = "1 1 1 1" ]
}

@test "with K GPUs per task those of local rank r have the indexes K*r to K*r+K-1" {
  run lab exec srun -N1 -n2 --gres=gpu:4 --muster=strict,report bash -c "$task"
  [ "$status" = 0 ]
  [ "$(value count)/$(value own)/$(value jax)" = "4 4/0,1 2,3/0,1 2,3" ]
  # A script that uses GPU number LOCAL_RANK would use another task's GPU: the report says so.
  [ "$(grep -c 'each task has 2 GPUs, from index 2\*LOCAL_RANK on' <<<"$output")" = 1 ]
  run lab exec srun -N1 -n2 --gpus-per-task=2 --muster=strict,report bash -c "$task"
  [ "$(value count)/$(value own)/$(value jax)" = "2 2/0,1 0,1/0,1 0,1" ]
  [[ "$output" != *"LOCAL_RANK on"* ]]
}

@test "with more GPUs than tasks the last task has one more, at the end of the list" {
  run lab exec srun -N1 -n3 --gres=gpu:4 --muster=strict bash -c "$task"
  [ "$status" = 0 ]
  [ "$(value count)/$(value own)" = "4 4 4/0 1 2,3" ]
}

@test "the report shows the GPUs that a task sees, and explain the reason" {
  run lab exec srun -N2 -n8 --gres=gpu:4 --muster=report true
  [ "$(grep -c '^CUDA shows each task all GPUs of the step, its own at its local rank$' <<<"$output")" = 1 ]
  run lab exec srun -N2 -n8 --gpus-per-task=1 --muster=explain true
  [ "$(grep -c '^CUDA shows each task its own GPUs (as Slurm does for --gpus-per-task and its like)$' <<<"$output")" = 1 ]
}

@test "when not all GPUs can be shown, each task sees its own, and one line gives the reason" {
  run lab exec srun -N2 -n8 --gpus-per-task=1 --gpu-bind=per_task:1 --muster=visible=node bash -c "$task"
  [ "$status" = 0 ]
  [ "$(value count)" = "$(each 1 8)" ]
  [ "$(grep -c "^muster: visible=node is not possible: Slurm hides the other tasks' GPUs" <<<"$output")" = 1 ]
  run lab exec srun -N1 -n4 --gres=gpu:2 --muster=visible=node,tasks-per-gpu=2 bash -c "$task"
  [ "$(value count)/$(value own)" = "1 1 1 1/0 0 0 0" ]
  [ "$(grep -c '^muster: visible=node is not possible: several tasks use one GPU' <<<"$output")" = 1 ]
}

@test "a step that requests fewer GPUs per task than its job has gets as many as it requested" {
  # The report of a step whose own --gpus-per-task differs from the job's --gpus-per-node.
  run lab exec salloc --quiet -N1 -n4 --gpus-per-node=4 srun -n2 --gpus-per-task=1 --muster=strict,report bash -c "$task"
  [ "$status" = 0 ]
  [ "$(value count)" = "1 1" ]
  [ "$(grep -cE '^[01] +[01] +0000:(01|41):00\.0 ' <<<"$output")" = 2 ]
}

@test "with several tasks per GPU by Slurm's --ntasks-per-gpu, GPU, cores and table agree" {
  run lab exec srun -N1 --gpus=2 --ntasks-per-gpu=2 --muster=strict,report bash -c "$task"'
    echo "$SLURM_PROCID cpus=$(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)"; echo "$SLURM_PROCID gpus=$MUSTER_GPUS"'
  [ "$status" = 0 ]
  [ "$(value count)" = "1 1 1 1" ]
  [ "$(value gpus | tr ' ' '\n' | sort | uniq -c | awk '{ print $1 }' | paste -sd' ')" = "2 2" ]
  for rank in 0 1 2 3; do
    row=$(grep -E "^$rank +$rank " <<<"$output")
    [ "$(awk '{ print $3, $4 }' <<<"$row")" = "$(value gpus | cut -d' ' -f$((rank + 1))) $(value cpus | cut -d' ' -f$((rank + 1)))" ]
  done
}

@test "ranks=off omits only the variables of the frameworks' rendezvous; a step of one task never has them" {
  show='for v in RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TF_CONFIG; do echo "$SLURM_PROCID $v=${!v-unset}"; done
    echo "$SLURM_PROCID set=$MUSTER_SET"'
  run lab exec srun -N1 -n2 --gpus-per-task=1 --muster=ranks=off bash -c "$show"
  for name in RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TF_CONFIG; do [ "$(value $name)" = "unset unset" ]; done
  # If Open MPI's own file confines it to lo, as in Debian testing, Muster names an interface.
  set=$(value set | cut -d' ' -f1)
  [ "${set/OMPI_MCA_btl_tcp_if_include,/}" = "CUDA_VISIBLE_DEVICES,CUDA_DEVICE_ORDER,NCCL_SOCKET_IFNAME,UCX_NET_DEVICES,GLOO_SOCKET_IFNAME,OMP_NUM_THREADS,JAX_COORDINATOR_ADDRESS,JAX_LOCAL_DEVICE_IDS" ]
  run lab exec srun -n1 --gpus-per-task=1 --muster=strict bash -c "$show"
  for name in RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TF_CONFIG; do [ "$(value $name)" = unset ]; done
  # Nor the variables of an outer step of several tasks.
  run lab exec srun -n2 -N1 --gpus=2 -c2 --muster bash -c 'if [ "$SLURM_PROCID" = 0 ]; then srun --overlap -n1 -c1 --muster bash -c "$0"; fi' "$show"
  [ "$status" = 0 ]
  [ "$(value RANK)/$(value MASTER_ADDR)" = unset/unset ]
}
