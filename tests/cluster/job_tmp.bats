#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# When Slurm gives every job its own /tmp (job_container/tmpfs, from 25.11 on namespace/tmpfs), a plan of
# json= is where the user finds it, whether or not Slurm calls plugins in that namespace (contain_spank).
load setup

setup_file() {
  local etc=$BATS_FILE_TMPDIR/etc kind='JobContainerType=job_container/tmpfs' version
  version=$(slurmctld -V)
  [ "$(printf '%s\n' 25.11 "${version##* }" | sort -V | head -n 1)" != 25.11 ] || kind='NamespaceType=namespace/tmpfs'
  mkdir "$etc"
  printf '%s\n' "$kind" PrologFlags=Contain >"$etc/slurm.conf"
  printf '%s\n' AutoBasePath=true BasePath=/run/job-tmp >"$etc/job_container.conf"
  # Linux refuses to bind-mount a mount namespace below one with a higher number, and 6.18 assigns numbers to
  # each CPU by the thousand, so all nodes' and jobs' namespaces are made on one CPU.
  taskset --cpu-list --pid "$(taskset --cpu-list --pid $$ | grep -o '[0-9]*$')" $$
  lab_up --nodes 2 --gpus 2 --plugin "$(plugin)" --etc "$etc"
  # Not below /tmp, and on both nodes.
  export SHARED=/run/muster-lab/$MUSTER_LAB/shared
  mkdir "$SHARED"
}
teardown_file() { lab_down; }

# in_two_steps OPTION…: runs a step with these options, then one of the same job that lists /tmp on each node.
in_two_steps() {
  # shellcheck disable=SC2016  # the inner shells expand them
  run lab exec salloc --quiet -N2 --ntasks-per-node=1 --gpus-per-task=1 bash -c 'srun "$@" true && srun bash -c "echo \$SLURM_PROCID there=\$(ls /tmp)"' - "$@"
}

plan_in_own_tmp() {
  in_two_steps --muster=json=/tmp/plan.json
  [ "$status" = 0 ]
  [ "$(value there)" = "plan-n0.json plan-n1.json" ]
  for node in n0 n1; do run -1 on_node "$node" test -e "/tmp/plan-$node.json"; done
}

plan_in_shared_folder() {
  rm -f "$SHARED"/*
  in_two_steps --muster="json=$SHARED/"
  [ "$status" = 0 ]
  [ "$(value there)" = " " ]
  for node in n0 n1; do [ "$(find "$SHARED" -name "muster-*-$node.json" | wc -l)" = 1 ]; done
}

@test "a plan in /tmp is in the job's own /tmp, for its next step too, and not in the node's" { plan_in_own_tmp; }
@test "a plan in a shared folder is there" { plan_in_shared_folder; }

@test "from within a temporary container a plan is written on the node" {
  printf '%s\n' "required $MUSTER_BUILD/lib/spank_container.so" "required $(plugin)" >"/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"
  in_two_steps --container-image=here --muster="json=$SHARED/plan.json"
  printf '%s\n' "required $(plugin)" >"/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"
  [ "$status" = 0 ]
  for node in n0 n1; do grep -q "\"$node\"" "$SHARED/plan-$node.json"; done
}

# Slurm's option that selects where it calls the plugin in user_init: in the job's namespace or in the node's.
@test "with contain_spank the plans are in the same places" {
  echo SlurmdParameters=contain_spank >>"/run/muster-lab/$MUSTER_LAB/etc/slurm.conf"
  on_lab scontrol reconfigure
  wait_until '[ "$(on_lab sinfo -h -N -o %T | sort -u)" = idle ]'
  on_lab scontrol show config | grep -q contain_spank
  plan_in_own_tmp
  plan_in_shared_folder
}
