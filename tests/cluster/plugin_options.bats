#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The words of --muster and the plugin's arguments, on a real two-node Slurm with two GPUs per node; and steps
# whose plan fails.
load setup

setup_file() { lab_up --nodes 2 --gpus 2 --plugin "$(plugin)"; }
teardown_file() { lab_down; }

show='for v in "$@"; do echo "$SLURM_PROCID $v=${!v-unset}"; done'
# Prints each task's actual cores, memory policy and the GPU files that it may open (without a driver an
# allowed open fails with ENXIO).
have='echo "$SLURM_PROCID cpus=$(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)"
  echo "$SLURM_PROCID policy=$(head -n 1 /proc/self/numa_maps | cut -d" " -f2)"
  for d in 0 1; do { : < /dev/nvidia$d; } 2>&1 | grep -q "No such device" && opens+=$d; done; echo "$SLURM_PROCID opens=$opens"
  for v in CUDA_VISIBLE_DEVICES MUSTER_SET SLURM_GPU_BIND SLURM_MUSTER_LIFTED; do echo "$SLURM_PROCID $v=${!v-unset}"; done'

# not_drained: no node has been drained.
not_drained() {
  run -0 lab exec sinfo --noheader --format=%T
  [[ "$output" != *drain* && "$output" != *down* ]]
}

# other_lab ARGS COMMAND: runs a command in a second lab whose plugin has these arguments.
other_lab() {
  local name=$MUSTER_LAB-x
  "$LAB_COMMAND" --name "$name" up --owner "$$" --nodes 1 --gpus 2 --plugin "$(plugin)" --plugin-args "$1"
  run "$LAB_COMMAND" --name "$name" exec bash -c "$2"
  "$LAB_COMMAND" --name "$name" down
}

@test "srun --help shows the option and its words" {
  run lab exec srun --help
  [ "$status" = 0 ]
  [[ "$output" == *"--muster=auto|strict|off,WORD..."* ]]
  [[ "$output" == *"See muster(7)"* ]]
}

@test "srun, sbatch and salloc refuse a mistake in one line, before anything starts" {
  for command in "srun -n1 --muster=WORDS touch /run/muster-lab/$MUSTER_LAB/ran" "salloc -n1 --muster=WORDS true" "sbatch --muster=WORDS --wrap=true"; do
    for words in "auto,fastest:'fastest' is not known: use auto, strict, off" "cpu=maybe:use cpu=on or cpu=off" "auto,strict:'auto' and 'strict' contradict"; do
      # shellcheck disable=SC2086  # a command line
      run lab exec ${command/WORDS/${words%%:*}}
      [ "$status" != 0 ]
      [ "$(grep -c 'muster: --muster=' <<<"$output")" = 1 ]
      [[ "$output" == *"${words#*:}"* ]]
    done
  done
  [ ! -e "/run/muster-lab/$MUSTER_LAB/ran" ]
}

@test "a list of 24,000 words is refused in one line, also by a node that gets it past srun" {
  local list
  list=auto$(printf ',auto%.0s' {1..23999})
  run lab exec srun -n1 --muster="$list" true
  [ "$status" != 0 ]
  [ "$(grep -c 'the list has 24000 words in 119999 bytes: at most 64 in 8192' <<<"$output")" = 1 ]
  # Like a launch message that srun has not checked.
  run -0 lab exec env "_SLURM_SPANK_OPTION_muster_muster=$list" srun -N1 -n2 --gpus-per-task=1 bash -c 'echo "${MUSTER_SET:-unplaced}"'
  [ "$(grep -c '^unplaced$' <<<"$output")" = 2 ]
  [ "$(grep -c '^muster: ' <<<"$output")" = 1 ]
  [[ "$output" == *"the list of --muster has more than 8192 bytes; Slurm's own binding stays"* ]]
}

@test "a binding of CPUs or memory that the user requested from Slurm stays" {
  for how in "srun --cpu-bind=map_cpu:1,0" "env SLURM_CPU_BIND=map_cpu:1,0 srun" "env SLURM_CPU_BIND=quiet,mask_cpu:0x2,0x1 srun"; do
    # shellcheck disable=SC2086  # a command line
    run lab exec $how -n2 -N1 --gpus-per-task=1 --muster=report bash -c "$have"
    [ "$status" = 0 ]
    [ "$(value cpus)" = "1 0" ]
    [[ "$output" == *"stays"* && "$(value MUSTER_SET)" != *OMP_NUM_THREADS* ]]
  done
  # The granularity of Slurm's own binding does not affect Muster's.
  run lab exec srun -n2 -N1 --hint=nomultithread --gpus-per-task=1 --muster=report bash -c "$have"
  [[ "$status" = 0 && "$output" != *"stays"* && "$(value MUSTER_SET)" == *OMP_NUM_THREADS* ]]

  run lab exec srun -n2 -N1 --mem-bind=local --gpus-per-task=1 --muster=memory=prefer bash -c "$have"
  [ "$(value policy)" = "bind:0 bind:0" ]

  # Not Slurm's binding of the task that runs the srun.
  run lab exec srun -n1 -N1 --gpus=2 -c2 --muster=off srun --overlap -n2 -c1 --gpus-per-task=1 --muster bash -c "$have"
  [ "$status" = 0 ]
  [[ "$output" != *"stays"* && "$(value MUSTER_SET)" == *OMP_NUM_THREADS* ]]
}

@test "an unplaced step inside a placed one keeps nothing of the outer step's environment, except changed variables" {
  for inner in --muster=off --quiet; do
    # shellcheck disable=SC2016  # for the outer step's shell
    run lab exec srun -n1 -N1 --gpus=2 -c2 --muster bash -c 'export OMP_NUM_THREADS=77
      srun --overlap -n2 -c1 "$1" bash -c "$0" - RANK MASTER_ADDR MUSTER_GPUS MUSTER_SET OMP_NUM_THREADS' "$show" $inner
    [ "$status" = 0 ]
    for name in RANK MASTER_ADDR MUSTER_GPUS MUSTER_SET; do [ "$(value $name)" = "unset unset" ]; done
    [ "$(value OMP_NUM_THREADS)" = "77 77" ]
  done
}

@test "cpu=off leaves Slurm's affinity, memory=off its policy, env=off and nic=off the environment" {
  run lab exec srun -n2 -N1 --cpu-bind=map_cpu:1,0 --gpus-per-task=1 --muster=auto,cpu=off,memory=off bash -c "$have"
  [ "$status" = 0 ]
  [ "$(value cpus)" = "1 0" ]
  [ "$(value policy)" = "default default" ]
  [[ "$(value MUSTER_SET)" == *RANK* && "$(value MUSTER_SET)" != *OMP_NUM_THREADS* ]]

  run lab exec srun -n2 -N1 --gpus-per-task=1 --muster=env=off bash -c "$have"
  [ "$(value cpus | tr ' ' '\n' | sort | paste -sd' ')" = "0 1" ]
  [[ "$(value policy)" == "prefer:0 prefer:0" || "$(value policy)" == "prefer=relative:0"* ]]
  [ "$(value MUSTER_SET)" = "unset unset" ]

  run lab exec srun -n2 -N1 --gpus-per-task=1 --muster=nic=off bash -c "$show" - NCCL_SOCKET_IFNAME UCX_NET_DEVICES GLOO_SOCKET_IFNAME MUSTER_NICS RANK
  for name in NCCL_SOCKET_IFNAME UCX_NET_DEVICES GLOO_SOCKET_IFNAME MUSTER_NICS; do [ "$(value $name)" = "unset unset" ]; done
  [ "$(value RANK)" = "0 1" ]
}

@test "gpu=off and env=off leave the GPUs as Slurm assigns them, isolated" {
  for words in gpu=off env=off; do
    run in_job --muster=$words srun bash -c "$have"
    [ "$status" = 0 ]
    [ "$(value CUDA_VISIBLE_DEVICES)" = "0 0 0 0" ]
    [ "$(value opens)" = "0 1 0 1" ]
  done
}

@test "memory=bind binds, memory=prefer prefers" {
  run lab exec srun -n1 --muster=memory=bind bash -c "$have"
  [[ "$(value policy)" == bind* ]]
  run lab exec srun -n1 --muster=memory=prefer bash -c "$have"
  [[ "$(value policy)" == prefer* ]]
}

@test "the option reaches the batch script's sruns and each task of an array, and an inner srun's own option overrides it" {
  cat >"$BATS_TEST_TMPDIR/job" <<'END'
#!/bin/bash
srun bash -c 'echo "$SLURM_PROCID outer=$SLURM_ARRAY_TASK_ID:${MUSTER_MEMORY-unset}:${MUSTER_CPUS-unset}"'
srun --muster=cpu=off bash -c 'echo "$SLURM_PROCID inner=$SLURM_ARRAY_TASK_ID:${MUSTER_MEMORY-unset}:${MUSTER_CPUS-unset}"'
srun --muster=off bash -c 'echo "$SLURM_PROCID off=$SLURM_ARRAY_TASK_ID:${MUSTER_MEMORY-unset}:${MUSTER_CPUS-unset}"'
END
  lab exec sbatch --quiet --wait --array=1-2 -N1 -n2 --gpus-per-task=1 --muster=strict,memory=off -o "$BATS_TEST_TMPDIR/out.%a" "$BATS_TEST_TMPDIR/job"
  for i in 1 2; do
    output=$(cat "$BATS_TEST_TMPDIR/out.$i")
    [ "$(value outer)" = "$i:unset:0 $i:unset:1" ]
    [ "$(value inner)" = "$i:0:unset $i:0:unset" ]
    [ "$(value off)" = "$i:unset:unset $i:unset:unset" ]
  done
}

@test "srun's own --muster also disables the isolation, and leaves no trace in the environment" {
  run lab exec srun -N2 -n4 --gpus-per-task=1 --muster bash -c "$have"
  [ "$status" = 0 ]
  [ "$(value opens)" = "01 01 01 01" ]
  [ "$(value SLURM_GPU_BIND)" = "unset unset unset unset" ]
  [ "$(value SLURM_MUSTER_LIFTED)" = "unset unset unset unset" ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 1 0 1" ]
}

@test "the flag by which a newer srun disables the isolation does not reach an srun within the task" {
  # As srun 23.11.4 sets it. This lab's srun may not know the flag, so the test passes it to the task.
  run lab exec srun -n1 --export=ALL,SLURM_MUSTER_LIFTED=SLURM_GRES_FLAGS:0,SLURM_GRES_FLAGS=allow-task-sharing --muster bash -c "$show" - SLURM_GRES_FLAGS SLURM_MUSTER_LIFTED
  [ "$status" = 0 ]
  [ "$(value SLURM_GRES_FLAGS) $(value SLURM_MUSTER_LIFTED)" = "unset unset" ]
}

@test "a step whose isolation was disabled but that is not placed still has one GPU per task" {
  # Given as a separate argument, --muster=off is hidden from the plugin until srun is about to start.
  run in_job --muster srun --job-name apart --muster=off bash -c "$have"
  [ "$status" = 0 ]
  [ "$(value opens)" = "01 01 01 01" ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 1 0 1" ]
  [ "$(value SLURM_MUSTER_LIFTED)" = "unset unset unset unset" ]
}

@test "with auto a step whose plan fails runs with Slurm's own binding, one GPU per task, and each node prints one line with the reason" {
  # A driver that does not know Slurm's GPUs makes every plan fail.
  for node in n0 n1; do lab node $node mount -t tmpfs none /proc/driver/nvidia; done
  run in_job --muster srun bash -c "$have"
  isolated=$output
  run lab exec srun -N2 -n4 --gpus-per-task=1 --muster=strict bash -c "$have"
  for node in n0 n1; do lab node $node umount /proc/driver/nvidia; done
  [ "$status" = 78 ]
  [ "$(grep -c "^muster: n[01]: .*as --muster=strict asks" <<<"$output")" = 2 ]
  output=$isolated
  [ "$(grep -c "^muster: n[01]: .*the NVIDIA driver lists no such GPU.*Slurm's own binding stays" <<<"$output")" = 2 ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 1 0 1" ]
  [ "$(value MUSTER_SET)" = "unset unset unset unset" ]
  not_drained
}

@test "with more tasks than GPUs auto prints the reason and runs, strict ends with 78 and the figures" {
  run lab exec srun -N1 -n2 --gres=gpu:1 --muster bash -c "$have"
  [ "$status" = 0 ]
  [ "$(grep -c '^muster: ' <<<"$output")" = 1 ]
  [[ "$output" == *"2 tasks"*"1 GPU"*"Slurm's own binding stays"* ]]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 0" ]
  run lab exec srun -N1 -n2 --gres=gpu:1 --muster=strict true
  [ "$status" = 78 ]
  [ "$(grep -c '^muster: ' <<<"$output")" = 1 ]
  [[ "$output" == *"2 tasks"*"1 GPU"* ]]
  not_drained
}

@test "an unknown plugin argument stops srun with one line" {
  for argument in default=maybe colour=red topology=relative.xml; do
    other_lab "$argument" "srun -n1 true"
    [ "$status" != 0 ]
    [ "$(grep -c "plugstack.conf: .*'${argument#default=}'" <<<"$output")" = 1 ]
  done
}

@test "default=auto places every step with GPUs, and only those" {
  other_lab default=auto "srun -n2 --gpus-per-task=1 bash -c 'echo gpus \$MUSTER_GPUS'; srun -n2 bash -c 'echo none \${MUSTER_GPUS-unset}'; srun -n1 --gpus-per-task=1 --muster=off bash -c 'echo off \${MUSTER_GPUS-unset}'"
  [ "$status" = 0 ]
  [ "$(grep -c '^gpus 0000:' <<<"$output")" = 2 ]
  [ "$(grep -c '^none unset' <<<"$output")" = 2 ]
  [ "$(grep -c '^off unset' <<<"$output")" = 1 ]
}

@test "with isolation=keep each task can open only its own GPU, and a line states the cost" {
  other_lab isolation=keep "salloc --quiet -n2 --gpus-per-task=1 --muster srun bash -c '$have'"
  [ "$status" = 0 ]
  [ "$(value opens)" = "0 1" ]
  [ "$(grep -c 'NVLink and CUDA IPC' <<<"$output")" = 1 ]
}

# vendor_lab FLAGS DEFAULT…: in a second lab whose GPUs are not NVIDIA's, runs a step with each default.
vendor_lab() {
  local name=$MUSTER_LAB-x default all=
  mkdir -p "$BATS_TEST_TMPDIR/etc"
  echo "Name=gpu File=/dev/nvidia[0-1] Flags=$1" >"$BATS_TEST_TMPDIR/etc/gres.conf"
  "$LAB_COMMAND" --name "$name" up --owner "$$" --nodes 1 --gpus 2 --plugin "$(plugin)" --etc "$BATS_TEST_TMPDIR/etc"
  "$LAB_COMMAND" --name "$name" node n0 mount -t tmpfs none /proc/driver/nvidia
  for default in "${@:2}"; do
    echo "required $(plugin) default=$default" >"/run/muster-lab/$name/etc/plugstack.conf"
    run "$LAB_COMMAND" --name "$name" exec srun -n2 --gpus-per-task=1 bash -c "$show" - ROCR_VISIBLE_DEVICES MUSTER_SET SLURM_MUSTER_LIFTED
    all+="$default status=$status"$'\n'$output$'\n'
  done
  "$LAB_COMMAND" --name "$name" down
  output=$all
}

@test "a default leaves steps on a node without NVIDIA GPUs to Slurm, and each task has its own GPU" {
  vendor_lab amd_gpu_env auto strict
  [ "$(grep -c 'status=0$' <<<"$output")" = 2 ]
  [ "$(value ROCR_VISIBLE_DEVICES)" = "0 0 1 1" ]
  [ "$(value MUSTER_SET)" = "unset unset unset unset" ]
  [ "$(value SLURM_MUSTER_LIFTED)" = "unset unset unset unset" ]
  [[ "$output" != *muster:* ]]
}

@test "tasks whose GPUs Slurm lists in no variable end, and do not use their neighbours' GPU" {
  [[ $(on_lab srun --version) =~ " 22."|" 23.02" ]] || skip "this Slurm assigns GPUs to tasks itself"
  vendor_lab no_gpu_env auto
  [[ "$output" == *"auto status=78"* ]]
  [[ "$output" == *"the task cannot be given GPUs of its own (Slurm lists them in no variable such as CUDA_VISIBLE_DEVICES; Flags=no_gpu_env in gres.conf?) and ends; use srun --muster=off"* ]]
}

@test "the shell of salloc's interactive step has the GPUs that it has without --muster" {
  local name=$MUSTER_LAB-x option all=
  # shellcheck disable=SC2016  # for the shell of the step
  printf '#!/bin/bash\necho "shell=$CUDA_VISIBLE_DEVICES"\n' >"$BATS_TEST_TMPDIR/shell"
  chmod +x "$BATS_TEST_TMPDIR/shell"
  printf '%s\n' LaunchParameters=use_interactive_step "InteractiveStepOptions=\"--interactive --preserve-env $BATS_TEST_TMPDIR/shell\"" >"$BATS_TEST_TMPDIR/lines"
  "$LAB_COMMAND" --name "$name" up --owner "$$" --share "$BATS_RUN_TMPDIR" --nodes 1 --gpus 2 --plugin "$(plugin)" --etc "$BATS_TEST_TMPDIR/lines"
  for option in --muster=off --muster; do
    run "$LAB_COMMAND" --name "$name" exec salloc --quiet -n2 --gpus-per-task=1 $option
    all+=$output$'\n'
  done
  "$LAB_COMMAND" --name "$name" down
  [ "$(grep '^shell=[01]' <<<"$all" | uniq -c | awk '{ print $1 }')" = 2 ]
}
