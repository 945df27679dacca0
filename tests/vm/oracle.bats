#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Random steps on the virtual machine with 4 NUMA domains, judged as those of tests/cluster/oracle.bats, and by where each task's
# memory and CPUs lie. ORACLE_CASES of ORACLE_SEED.
bats_require_minimum_version 1.5.0

REPOSITORY=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
export MUSTER_BUILD=${MUSTER_BUILD:-$REPOSITORY/build}
vm() { "$REPOSITORY/tests/lab-vm/lab-vm" "$@"; }

setup_file() {
  vm up --owner "$$" --carry "$REPOSITORY/tests/cluster/oracle/oracle.py" --carry "$REPOSITORY/tests/cluster/oracle/probe.py" \
    >"$BATS_FILE_TMPDIR/up" || { cat "$BATS_FILE_TMPDIR/up"; return 1; }
}
teardown_file() { vm down >/dev/null; }

@test "random steps: each task's memory and CPUs are beside its GPU, and all that the oracle asks of a lab holds" {
  local cases=${ORACLE_CASES:-20}
  # Ten seconds a step, with Muster and without.
  run --separate-stderr vm exec --deadline $((120 + 40 * cases)) "
    python3 /opt/muster/bin/oracle.py --seed ${ORACLE_SEED:-1} --cases $cases --nodes 1 --job=--partition=whole /tmp"
  echo "$output"
  # shellcheck disable=SC2154 # bats sets it
  echo "$stderr"
  [ "$status" = 0 ]
}
