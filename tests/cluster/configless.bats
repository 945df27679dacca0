#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Nodes without their own configuration files: slurmd fetches them from slurmctld, plugstack.conf among them.
load setup

setup_file() {
  lab_up --nodes 2 --gpus 2 --plugin "$(plugin)" --etc <(echo SlurmctldParameters=enable_configless)
  # Only the controller keeps the lab's configuration folder.
  for node in n0 n1; do on_node "$node" mount -t tmpfs -o ro nothing "/run/muster-lab/$MUSTER_LAB/etc"; done
}
teardown_file() { lab_down; }

@test "a step on nodes that fetch their configuration is placed like any other" {
  # shellcheck disable=SC2016 # the tasks expand it
  run in_job --muster=strict,report srun bash -c 'echo "$SLURM_PROCID gpus=$MUSTER_GPUS"; echo "$SLURM_PROCID conf=$(cat "/run/muster-lab/'"$MUSTER_LAB"'/etc/slurm.conf" 2>&1)"'
  echo "$output"
  [ "$status" = 0 ]
  [[ "$(value conf)" == *"No such file"* ]]
  [ "$(value gpus | cut -d' ' -f1,2 | tr ' ' '\n' | sort -u | wc -l)" = 2 ]
  [[ "$output" == *"n[0-1]: 2 nodes alike, ranks 0-3"* ]]
}

@test "a batch job's steps are placed too" {
  # shellcheck disable=SC2016 # the batch script expands it
  run lab exec sbatch --wait --quiet -N2 --ntasks-per-node=2 --gpus-per-task=1 --muster=strict --output="$BATS_TEST_TMPDIR/out" \
    --wrap 'srun bash -c "echo \$SLURM_PROCID gpus=\$MUSTER_GPUS"'
  [ "$status" = 0 ]
  output=$(<"$BATS_TEST_TMPDIR/out")
  [ "$(value gpus | wc -w)" = 4 ]
}
