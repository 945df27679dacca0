#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Random steps, judged by what each task finds and by what Slurm alone gives it (oracle/oracle.py). ORACLE_CASES of ORACLE_SEED.
load setup

teardown() { lab_down; }

# agree CASES OPTION…: in a lab with these options.
agree() {
  lab_up --nodes 2 --cpus 8 --plugin "$(plugin)" "${@:2}"
  # Two to three seconds a step on a busy machine.
  LAB_DEADLINE=$((120 + 10 * $1)) run lab exec python3 "$BATS_TEST_DIRNAME/oracle/oracle.py" --seed "${ORACLE_SEED:-1}" --cases "$1" "$BATS_TEST_TMPDIR"
  echo "$output"
  [ "$status" = 0 ]
}

@test "random steps: GPU, variables, cores, memory and table agree with each other and with Slurm" {
  agree "${ORACLE_CASES:-30}" --gpus 4
}

@test "random steps on MIG instances" {
  agree "$((${ORACLE_CASES:-30} / 3))" --gpus 2 --mig 2
}
