#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Random steps on the virtual machine with 4 NUMA domains, checked like those of tests/cluster/oracle.bats,
# and by the NUMA domains of each task's memory and CPUs. ORACLE_CASES cases of ORACLE_SEED.
bats_require_minimum_version 1.5.0

REPOSITORY=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
export MUSTER_BUILD=${MUSTER_BUILD:-$REPOSITORY/build}
vm() { "$REPOSITORY/tests/lab-vm/lab-vm" "$@"; }

setup_file() {
  vm up --owner "$$" --carry "$REPOSITORY/tests/cluster/oracle/oracle.py" --carry "$REPOSITORY/tests/cluster/oracle/probe.py" \
    >"$BATS_FILE_TMPDIR/up" || { cat "$BATS_FILE_TMPDIR/up"; return 1; }
}
teardown_file() { vm down >/dev/null; }

@test "in random steps each task's memory and CPUs are local to its GPU, and all of the oracle's checks hold" {
  local cases=${ORACLE_CASES:-20}
  # Ten seconds a step, with Muster and without.
  run --separate-stderr vm exec --deadline $((120 + 40 * cases)) "
    python3 /opt/muster/bin/oracle.py --seed ${ORACLE_SEED:-1} --cases $cases --nodes 1 --job=--partition=whole /tmp"
  echo "$output"
  # shellcheck disable=SC2154 # bats sets it
  echo "$stderr"
  [ "$status" = 0 ]
}
