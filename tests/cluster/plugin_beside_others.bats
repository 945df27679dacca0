#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The plugin together with other things that change a step: a container plugin before it (a fake pyxis,
# spank_container.cpp), `optional` and `required` in plugstack.conf, a missing plugin file, and an srun whose
# stderr is closed.
load setup

setup_file() { lab_up --nodes 2 --gpus 2 --plugin "$(plugin)"; }
teardown_file() { lab_down; }

# plugstack LINE…: sets the lines from the next step on.
plugstack() { printf '%s\n' "$@" >"/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"; }
setup() { plugstack "required $(plugin)"; }

show='echo "$SLURM_PROCID inside=$(cat /in-container 2>/dev/null)"
  echo "$SLURM_PROCID sysfs=$(ls /sys | wc -l)"
  for d in 0 1; do { : < /dev/nvidia$d; } 2>&1 | grep -q "No such device" && opens+=$d; done; echo "$SLURM_PROCID opens=$opens"
  echo "$SLURM_PROCID cpus=$(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)"
  echo "$SLURM_PROCID policy=$(head -n 1 /proc/self/numa_maps | cut -d" " -f2 | sed "s/=.*:/:/")"
  for v in MUSTER_CPUS MUSTER_GPUS CUDA_VISIBLE_DEVICES LOCAL_RANK; do echo "$SLURM_PROCID $v=${!v-unset}"; done'

@test "in a container that pyxis made first, placement, environment and devices are as outside" {
  in_job --muster=strict srun bash -c "$show" | grep -E ' (MUSTER_|CUDA|LOCAL|cpus|policy|opens)' | sort >"$BATS_TEST_TMPDIR/outside"
  plugstack "required $MUSTER_BUILD/lib/spank_container.so" "required $(plugin)"
  run in_job --muster=strict srun --container-image=here bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value inside)" = "here here here here" ]
  [ "$(value sysfs)" = "0 0 0 0" ]
  [ "$(value opens)" = "01 01 01 01" ]
  [ "$(value cpus)" = "$(value MUSTER_CPUS)" ]
  [ "$(value policy)" = "prefer:0 prefer:0 prefer:0 prefer:0" ]
  diff "$BATS_TEST_TMPDIR/outside" <(grep -E ' (MUSTER_|CUDA|LOCAL|cpus|policy|opens)' <<<"$output" | sort)
}

@test "in a container without the GPUs' device files each task still gets its own GPU's number" {
  plugstack "required $MUSTER_BUILD/lib/spank_container.so no-devices" "required $(plugin)"
  run in_job --muster=strict srun --container-image=here bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value inside)" = "here here here here" ]
  [ "$(value opens)" = "   " ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 1 0 1" ]
}

@test "with optional a step is placed as with required, strict still ends it, and a missing plugin file stops nothing" {
  plugstack "optional $(plugin)"
  run in_job --muster srun bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 1 0 1" ]
  run lab exec srun -N1 -n2 --gres=gpu:1 --muster=strict bash -c "$show"
  [ "$status" = 78 ]
  [ -z "$(value inside)" ]
  plugstack "optional /nonexistent/spank_muster.so"
  run in_job srun bash -c "$show"
  [ "$status" = 0 ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 0 0 0" ]
}

@test "a mistake in an optional plugin's arguments is printed, and the step runs" {
  plugstack "optional $(plugin) colour=red"
  run lab exec srun -n1 --gpus-per-task=1 bash -c "$show"
  [ "$status" = 0 ]
  [[ "$output" == *"plugstack.conf: spank_muster.so: 'colour=red' is not known"* ]]
}

@test "an srun whose stderr is closed still runs its step" {
  lab exec bash -c "srun -N2 -n4 --gpus-per-task=1 --muster=explain bash -c 'echo ran >>$BATS_TEST_TMPDIR/ran' 2> >(exec 0<&-); echo \$? >$BATS_TEST_TMPDIR/status"
  [ "$(cat "$BATS_TEST_TMPDIR/status")" = 0 ]
  [ "$(wc -l <"$BATS_TEST_TMPDIR/ran")" = 4 ]
}
