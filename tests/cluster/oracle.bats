#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Random steps, judged by what each task finds and by what Slurm alone gives it (oracle/oracle.py). ORACLE_CASES of ORACLE_SEED.
load setup

setup_file() { lab_up --nodes 2 --gpus 4 --cpus 8 --plugin "$(plugin)"; }
teardown_file() { lab_down; }

@test "random steps: GPU, variables, cores, memory and table agree with each other and with Slurm" {
  # Two to three seconds a step on a busy machine.
  LAB_DEADLINE=$((120 + 10 * ${ORACLE_CASES:-30})) run lab exec python3 "$BATS_TEST_DIRNAME/oracle/oracle.py" \
    --seed "${ORACLE_SEED:-1}" --cases "${ORACLE_CASES:-30}" "$BATS_TEST_TMPDIR"
  echo "$output"
  [ "$status" = 0 ]
}
