#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Features of Slurm 23.11 and later: --tres-per-task and --tres-bind, isolation that a flag disables, stepmgr,
# blocks and segments, external launchers, GPUs that Slurm names by UUID.
load setup

setup_file() {
  if older_than 23.11.4; then return; fi
  mkdir "$BATS_FILE_TMPDIR/etc"
  printf '%s\n' SlurmctldParameters=enable_stepmgr PrologFlags=Contain TopologyPlugin=topology/block >"$BATS_FILE_TMPDIR/etc/slurm.conf"
  printf '%s\n' 'BlockName=rack0 Nodes=n0' 'BlockName=rack1 Nodes=n1' BlockSizes=1 >"$BATS_FILE_TMPDIR/etc/topology.conf"
  lab_up --nodes 2 --gpus 4 --cpus 8 --plugin "$(plugin)" --etc "$BATS_FILE_TMPDIR/etc"
}
teardown_file() { lab_down; }
setup() { if older_than 23.11.4; then skip "Slurm $(on_this_machine) is older than 23.11.4"; fi; }

on_this_machine() { slurmd -V | sed 's/^slurm[a-z-]* //'; }
older_than() { [ "$(printf '%s\n' "$1" "$(on_this_machine)" | sort --version-sort | head -n 1)" != "$1" ]; }

show='minor_of() { sed -n "s/^Device Minor:[[:space:]]*//p" "/proc/driver/nvidia/gpus/$1/information"; }
  echo "$SLURM_PROCID gpus=$MUSTER_GPUS"
  for gpu in ${MUSTER_GPUS//,/ }; do minors+=${minors:+,}$(minor_of "$gpu"); done
  echo "$SLURM_PROCID minors=$minors"
  echo "$SLURM_PROCID step_gpus=$SLURM_STEP_GPUS"
  echo "$SLURM_PROCID ordinal=${GPU_DEVICE_ORDINAL-unset}"
  IFS=, read -ra shown <<<"$CUDA_VISIBLE_DEVICES"; echo "$SLURM_PROCID shown=${#shown[@]}"
  for d in 0 1 2 3; do { : < /dev/nvidia$d; } 2>&1 | grep -q "No such device" && opens+=$d; done; echo "$SLURM_PROCID opens=$opens"'

@test "with --tres-per-task in every spelling that srun accepts, each task has as many GPUs as it requested" {
  for spelling in gres/gpu:1 gres/gpu=1 cpu=1,gres/gpu=1 cpu=1,gres/gpu:1; do
    run lab exec srun -N1 -n2 --tres-per-task=$spelling --muster=strict bash -c "$show"
    [ "$status" = 0 ]
    [ "$(value gpus)" = "0000:01:00.0 0000:41:00.0" ]
    [ "$(value shown)" = "1 1" ]
    # The job has more GPUs than the step requests.
    run lab exec salloc --quiet -N1 -n4 --gpus-per-node=4 srun -n2 --tres-per-task=$spelling --muster=strict bash -c "$show"
    [ "$status" = 0 ]
    [ "$(value shown)" = "1 1" ]
  done
  run lab exec srun -N1 -n2 --tres-per-task=gres/gpu=2 --muster=strict bash -c "$show"
  [ "$(value gpus)" = "0000:01:00.0,0000:41:00.0 0000:81:00.0,0000:c1:00.0" ]
}

@test "when a flag disables the isolation, every task can open all GPUs of the step, and SLURM_STEP_GPUS names its own" {
  run lab exec srun -N1 -n4 --gpus-per-task=1 --muster=strict bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value opens)" = "0123 0123 0123 0123" ]
  [ "$(value gpus | tr ' ' '\n' | sort -u | wc -l)" = 4 ]
  [ "$(value step_gpus)" = "$(value minors)" ]
  # Slurm's would name other GPUs.
  [ "$(value ordinal)" = "unset unset unset unset" ]
}

@test "a step's own --gpus-per-task in a job with more GPUs: GPU, cores and table agree" {
  run lab exec salloc --quiet -N1 -n4 --gpus-per-node=4 srun -n2 --gpus-per-task=1 --muster=strict,report bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value shown)" = "1 1" ]
  for rank in 0 1; do
    [ "$(grep -E "^$rank +$rank " <<<"$output" | awk '{ print $3 }')" = "$(value gpus | cut -d' ' -f$((rank + 1)))" ]
  done
}

@test "with --tres-bind each task has the GPU that it names, and the table shows it" {
  run lab exec srun -N1 -n2 --gres=gpu:2 --tres-bind=gres/gpu:map:1,0 --muster=strict,report bash -c "$show"
  [ "$status" = 0 ]
  gpus=$(value gpus)
  run lab exec srun -N1 -n2 --gres=gpu:2 --tres-bind=gres/gpu:map:0,1 --muster=strict,report bash -c "$show"
  [ "$(value gpus)" = "$(awk '{ print $2, $1 }' <<<"$gpus")" ]
  for rank in 0 1; do
    [ "$(grep -E "^$rank +$rank " <<<"$output" | awk '{ print $3 }')" = "$(value gpus | cut -d' ' -f$((rank + 1)))" ]
  done
}

@test "with --ntasks-per-gpu, which binds to single GPUs, the plan assigns the GPUs" {
  run lab exec srun -N1 -n4 --gpus=2 --ntasks-per-gpu=2 --muster=strict,report bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value gpus | tr ' ' '\n' | sort | uniq -c | awk '{ print $1 }' | paste -sd' ')" = "2 2" ]
  [ "$(value shown)" = "1 1 1 1" ]
  for rank in 0 1 2 3; do
    [ "$(grep -E "^$rank +$rank " <<<"$output" | awk '{ print $3 }')" = "$(value gpus | cut -d' ' -f$((rank + 1)))" ]
  done
}

@test "a step that the job's own step manager starts is placed like any other" {
  run lab exec salloc --quiet --stepmgr -N2 -n8 --gpus-per-task=1 --muster=strict srun bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value shown)" = "1 1 1 1 1 1 1 1" ]
  [ "$(value gpus | cut -d' ' -f1-4 | tr ' ' '\n' | sort -u | wc -l)" = 4 ]
}

@test "--no-kill changes nothing, and a step for an external launcher keeps all of the job's resources on a node" {
  run lab exec srun --no-kill -N2 -n8 --gpus-per-task=1 --muster=strict bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value shown)" = "1 1 1 1 1 1 1 1" ]
  if older_than 24.11; then skip "srun has no --external-launcher"; fi
  run lab exec salloc --quiet -N2 --ntasks-per-node=4 --gpus-per-node=4 --muster srun --external-launcher bash -c "$show"'; echo "$SLURM_PROCID rank=${RANK-unset}"'
  [ "$status" = 0 ]
  [ "$(value opens | tr ' ' '\n' | sort -u)" = 0123 ]
}

@test "the report names each node's block of Slurm's topology, and the job's segments" {
  run lab exec srun -N2 -n2 --muster=report true
  echo "$output"
  [ "$status" = 0 ]
  [ "$(grep -c "^note: n0: block rack0 of Slurm's topology$" <<<"$output")" = 1 ]
  [ "$(grep -c "^note: n1: block rack1 of Slurm's topology$" <<<"$output")" = 1 ]
  # shellcheck disable=SC2016 # the task expands it
  [ "$(lab exec srun -N2 -n2 --segment=1 bash -c 'echo "$SLURM_JOB_SEGMENT_SIZE"' | sort -u)" = 1 ] || skip "Slurm $(on_this_machine) tells a job nothing of its segments"
  run lab exec srun -N2 -n2 --segment=1 --muster=report true
  echo "$output"
  [[ "$output" == *"note: n0: block rack0 of Slurm's topology, in segments of 1 node"* ]]
}

# The last test of this file, because it changes the names of the nodes' GPUs.
@test "when Slurm names GPUs by UUID (env_uuid), each task has its own, or the one that --gpu-bind names" {
  if older_than 26.05; then skip "gres.conf of Slurm $(on_this_machine) has no env_uuid"; fi
  # Slurm reads UUIDs from the driver's files and the nearby cores from sysfs, which does not have the fake
  # GPUs.
  for node in n0 n1; do
    # shellcheck disable=SC2016 # the node's shell expands it
    on_node "$node" bash -c 'mount -t tmpfs drivers /sys/bus
      for gpu in /proc/driver/nvidia/gpus/*; do near=/sys/bus/pci/drivers/nvidia/${gpu##*/}; mkdir -p "$near"; echo 0-7 >"$near/local_cpulist"; done'
  done
  printf '%s\n' AutoDetect=nvidia 'Name=gpu File=/dev/nvidia[0-3] Flags=nvidia_gpu_env,env_uuid' >"/run/muster-lab/$MUSTER_LAB/etc/gres.conf"
  on_lab scontrol reconfigure
  # Each slurmd reads the new file at a time of its own.
  for node in n0 n1; do
    wait_until '[[ "$(on_lab srun -w "$node" -n1 --gres=gpu:2 bash -c "echo \$CUDA_VISIBLE_DEVICES" 2>&1)" == GPU-*,GPU-* ]]'
  done
  # shellcheck disable=SC2016 # the tasks expand it
  named='echo "$SLURM_PROCID gpu=$(sed -n "s/^GPU UUID:[[:space:]]*//p" "/proc/driver/nvidia/gpus/$MUSTER_GPUS/information")"
    echo "$SLURM_PROCID shown=$CUDA_VISIBLE_DEVICES"'
  run lab exec srun -N1 -n4 --gpus-per-task=1 --muster=strict bash -c "$named"
  [ "$status" = 0 ]
  [ "$(value shown)" = "$(value gpu)" ]
  [ "$(value gpu | tr ' ' '\n' | sort -u | grep -c ^GPU-)" = 4 ]
  for binding in 0,1 1,0; do
    run lab exec srun -N1 -n2 --gres=gpu:2 --gpu-bind=map_gpu:$binding --muster=off bash -c 'echo "$SLURM_PROCID slurm=$CUDA_VISIBLE_DEVICES"'
    slurm=$(value slurm)
    run lab exec srun -N1 -n2 --gres=gpu:2 --gpu-bind=map_gpu:$binding --muster=strict bash -c "$named"
    [ "$(value gpu)" = "$slurm" ]
    [ "$(value shown)" = "$slurm" ]
  done
  # Both are visible; a task's own is at its local rank.
  run lab exec srun -N1 -n2 --gres=gpu:2 --muster=strict bash -c "$named"
  [ "$(value shown | cut -d' ' -f1)" = "$(value gpu | tr ' ' ,)" ]
  [ "$(value shown | cut -d' ' -f2)" = "$(value gpu | tr ' ' ,)" ]
}
