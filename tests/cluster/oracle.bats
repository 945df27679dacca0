#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Random steps, checked against each task's own observations and against Slurm alone (oracle/oracle.py).
# ORACLE_CASES cases of ORACLE_SEED.
load setup

teardown() { lab_down; }

# agree CASES OPTION…: runs CASES steps in a lab with these options.
agree() {
  lab_up --nodes 2 --cpus 8 --plugin "$(plugin)" "${@:2}"
  # Two to three seconds per step on a busy machine.
  LAB_DEADLINE=$((900 + 10 * $1)) run lab exec python3 "$BATS_TEST_DIRNAME/oracle/oracle.py" --seed "${ORACLE_SEED:-1}" --cases "$1" "$BATS_TEST_TMPDIR"
  echo "$output"
  [ "$status" = 0 ]
}

@test "in random steps GPU, variables, cores, memory and table agree with each other and with Slurm" {
  agree "${ORACLE_CASES:-30}" --gpus 4
}

@test "random steps on MIG instances agree" {
  agree "$((${ORACLE_CASES:-30} / 3))" --gpus 2 --mig 2
}
