#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The plugin on a real two-node Slurm with two GPUs per node.
load setup

setup_file() { lab_up --nodes 2 --gpus 2 --plugin "$(plugin)"; }
teardown_file() { lab_down; }

show='for v in "$@"; do echo "$SLURM_PROCID $v=${!v-unset}"; done'

@test "without the option a step runs as without the plugin" {
  run in_job srun bash -c "$show" - MUSTER_SET RANK CUDA_VISIBLE_DEVICES OMP_NUM_THREADS
  [ "$status" = 0 ]
  [ "$(value MUSTER_SET)" = "unset unset unset unset" ]
  [ "$(value RANK)" = "unset unset unset unset" ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 0 0 0" ]
}

@test "every task gets its own GPU, in PCI order, by Slurm's number" {
  run in_job --muster srun bash -c "$show" - MUSTER_GPUS CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER SLURMD_NODENAME
  [ "$status" = 0 ]
  set -- $(value MUSTER_GPUS)
  [ $# = 4 ]
  [[ "$1" < "$2" && "$3" < "$4" ]]
  # DeepSpeed and scripts that query NVML expect numbers. Slurm numbers GPUs like the device files, here in
  # reverse.
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 1 0 1" ]
  [ "$(value CUDA_DEVICE_ORDER)" = "PCI_BUS_ID PCI_BUS_ID PCI_BUS_ID PCI_BUS_ID" ]
}

@test "when CUDA does not count in PCI order, a task gets the UUID of the GPU at its PCI address" {
  run in_job --muster env CUDA_DEVICE_ORDER=FASTEST_FIRST srun bash -c '
    uuid=$(sed -n "s/^GPU UUID:[[:space:]]*//p" /proc/driver/nvidia/gpus/$MUSTER_GPUS/information)
    echo "$SLURM_PROCID same=$([ "$uuid" = "$CUDA_VISIBLE_DEVICES" ] && echo yes)"'
  [ "$(value same)" = "yes yes yes yes" ]
}

@test "inner sruns of a --muster job are not isolated: every task can open every GPU of the step" {
  # Without a driver an allowed open fails with ENXIO (No such device or address), a denied one with EPERM.
  run in_job --muster srun bash -c 'n=0; for d in /dev/nvidia0 /dev/nvidia1; do { : < $d; } 2>&1 | grep -q "No such device" && n=$((n+1)); done; echo "$SLURM_PROCID open=$n"'
  [ "$(value open)" = "2 2 2 2" ]
  run in_job srun bash -c 'n=0; for d in /dev/nvidia0 /dev/nvidia1; do { : < $d; } 2>&1 | grep -q "No such device" && n=$((n+1)); done; echo "$SLURM_PROCID open=$n"'
  [ "$(value open)" = "1 1 1 1" ]
}

@test "when tasks are still isolated, one line states the cost, and each task's cores follow its GPU" {
  run lab exec srun -N2 -n4 --gpus-per-task=1 --gpu-bind=per_task:1 --muster=report bash -c '
    minor=$(sed -n "s/^Device Minor:[[:space:]]*//p" /proc/driver/nvidia/gpus/$MUSTER_GPUS/information)
    { : < /dev/nvidia$minor; } 2>&1 | grep -q "No such device" && echo "$SLURM_PROCID mine=opens"
    echo "$SLURM_PROCID cpus=$(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)"
    echo "$SLURM_PROCID said=$MUSTER_CPUS"
    echo "$SLURM_PROCID CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"'
  [ "$status" = 0 ]
  [ "$(grep -c 'NVLink and CUDA IPC' <<<"$output")" = 1 ]
  [ "$(value mine)" = "opens opens opens opens" ]
  [ "$(value cpus)" = "$(value said)" ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 0 0 0" ]
}

@test "tasks of a node have disjoint cores, as listed in MUSTER_CPUS" {
  run in_job --muster srun bash -c 'echo "$SLURM_PROCID cpus=$(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)"; echo "$SLURM_PROCID said=$MUSTER_CPUS"'
  [ "$(value cpus)" = "$(value said)" ]
  set -- $(value cpus)
  # Two CPUs per node: disjoint and not empty means one each.
  [ "$1 $2" = "0 1" ] && [ "$3 $4" = "0 1" ]
}

@test "memory is preferred on the domain in MUSTER_MEMORY" {
  run in_job --muster srun bash -c 'echo "$SLURM_PROCID policy=$(head -n 1 /proc/self/numa_maps | cut -d" " -f2 | sed "s/=.*:/:/")"; echo "$SLURM_PROCID said=prefer:$MUSTER_MEMORY"'
  [ "$status" = 0 ]
  [ "$(value policy)" = "$(value said)" ]
}

@test "rank variables agree with Slurm's on every task, and the master is the first node" {
  run in_job --muster srun bash -c 'echo "$SLURM_PROCID ok=$([ "$RANK/$WORLD_SIZE/$LOCAL_RANK" = "$SLURM_PROCID/$SLURM_NTASKS/$SLURM_LOCALID" ] && [ "$LOCAL_WORLD_SIZE" = 2 ] && echo yes)"; echo "$SLURM_PROCID master=$MASTER_ADDR:$MASTER_PORT"; echo "$SLURM_PROCID host=$SLURMD_NODENAME"'
  [ "$(value ok)" = "yes yes yes yes" ]
  [ "$(value master | tr ' ' '\n' | sort -u | wc -l)" = 1 ]
  set -- $(value host)
  [[ "$(value master)" == "$1:"* ]]
}

@test "two steps of a job get different ports" {
  run in_job --muster bash -c 'for i in 1 2; do srun -n2 -N1 bash -c "echo \$SLURM_PROCID p$i=\$MASTER_PORT"; done'
  [ "$status" = 0 ]
  [ -n "$(value p1)" ] && [ "$(value p1)" != "$(value p2)" ]
}

@test "a variable that the user set is never replaced, and is reported as kept" {
  run in_job --muster env NCCL_SOCKET_IFNAME=mine OMP_NUM_THREADS=7 srun bash -c "$show" - NCCL_SOCKET_IFNAME OMP_NUM_THREADS MUSTER_SET MUSTER_KEPT
  [ "$(value NCCL_SOCKET_IFNAME)" = "mine mine mine mine" ]
  [ "$(value OMP_NUM_THREADS)" = "7 7 7 7" ]
  [[ "$(value MUSTER_KEPT)" == *OMP_NUM_THREADS* ]]
  [[ "$(value MUSTER_SET)" != *OMP_NUM_THREADS* ]]
  [[ "$(value MUSTER_SET)" == *MASTER_ADDR* ]]
}

@test "the socket interface is the node's own, not loopback" {
  run in_job --muster srun bash -c "$show" - NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME
  [ "$(value GLOO_SOCKET_IFNAME | tr ' ' '\n' | sort -u)" = eth0 ]
  [ "$(value NCCL_SOCKET_IFNAME | tr ' ' '\n' | sort -u)" = =eth0 ]
}

@test "--muster=off in a --muster job leaves the step alone" {
  run in_job --muster srun --muster=off bash -c "$show" - MUSTER_SET CUDA_VISIBLE_DEVICES
  [ "$(value MUSTER_SET)" = "unset unset unset unset" ]
  # Slurm's own binding also applies: one GPU per task.
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 0 0 0" ]
}

@test "a step without GPUs is placed on cores when requested" {
  run lab exec srun -N2 -n2 --muster bash -c "$show" - MUSTER_CPUS CUDA_VISIBLE_DEVICES RANK
  [ "$status" = 0 ]
  [ "$(value RANK)" = "0 1" ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "unset unset" ]
}

@test "a job that got the second half of the GPUs is placed on exactly those" {
  run lab exec bash -c "$(declare -f wait_until)"'
    srun -N1 -w n0 -n1 --gres=gpu:1 -c1 sleep 300 & wait_until "[ -n \"\$(squeue -h -t R)\" ]"
    srun -N1 -w n0 -n1 --gres=gpu:1 -c1 --muster bash -c "grep -h Minor /proc/driver/nvidia/gpus/\$MUSTER_GPUS/information"; code=$?; scancel -u root; wait; exit $code'
  [ "$status" = 0 ]
  [[ "$output" == *"Device Minor:"*1* ]]
}

@test "the plugin defines only SPANK's symbols, and links neither libslurm nor CUDA nor NVML nor the C++ runtime" {
  run bash -c "nm -D --defined-only '$(plugin)' | awk '{ print \$3 }' | grep -vE '^(plugin_name|plugin_type|plugin_version|spank_plugin_version|slurm_spank_[a-z_]+)(@@.*)?$'"
  [ -z "$output" ]
  run readelf -d "$(plugin)"
  [[ "$output" != *libslurm* && "$output" != *libcud* && "$output" != *libnvidia* && "$output" != *libstdc++* ]]
}

@test "every symbol that the plugin needs is libc's or Slurm's (loading is lazy, so a missing one would fail only when called)" {
  needed=$(nm -D --undefined-only "$(plugin)" | awk '$1 == "U" && $2 !~ /@/ { print $2 }' | sort -u)
  offered=$(nm -D --defined-only "$(ldd "$(command -v srun)" | awk '/libslurmfull/ { print $3 }')" | awk '{ print $3 }' | sort -u)
  [ -n "$needed" ]
  run comm -23 <(echo "$needed") <(echo "$offered")
  [ -z "$output" ]
}

@test "srun draws a seed for the ports of a step without PMIx, the same for its tasks and new for each step" {
  local seed
  run -0 in_job srun --muster printenv SLURM_MUSTER_PORT_SEED
  [[ "${lines[0]}" =~ ^[0-9a-f]{32}$ ]]
  [ "$(printf '%s\n' "${lines[@]}" | sort -u | wc -l)" = 1 ]
  seed=${lines[0]}
  run -0 in_job srun --muster --export=NONE /usr/bin/printenv SLURM_MUSTER_PORT_SEED
  [[ "${lines[0]}" =~ ^[0-9a-f]{32}$ ]]
  [ "${lines[0]}" != "$seed" ]
}

@test "muster exec places a task that the plugin leaves alone as the plugin places it" {
  names=(MUSTER_VERSION MUSTER_GPUS MUSTER_CPUS MUSTER_MEMORY MUSTER_NICS CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER JAX_LOCAL_DEVICE_IDS
    NCCL_IB_HCA NCCL_SOCKET_IFNAME UCX_NET_DEVICES GLOO_SOCKET_IFNAME OMP_NUM_THREADS RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE)
  bound='echo "$SLURM_PROCID mask=$(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)"
    echo "$SLURM_PROCID policy=$(head -n 1 /proc/self/numa_maps | cut -d" " -f2)"'
  run --separate-stderr -0 lab exec srun -N1 -n2 --gres=gpu:2 --muster=strict bash -c "$show; $bound" - "${names[@]}"
  plugin=$(sort <<<"$output")
  [ "$(value MUSTER_CPUS)/$(value CUDA_VISIBLE_DEVICES)" = "0 1/0,1 0,1" ]
  run --separate-stderr -0 lab exec srun -N1 -n2 --gres=gpu:2 --muster=off --cpu-bind=none \
    "$MUSTER_BUILD/bin/muster" exec --muster strict -- bash -c "$show; $bound" - "${names[@]}"
  diff <(echo "$plugin") <(sort <<<"$output")
}
