#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The lab of namespaces (tests/lab) inside the virtual machine, whose kernel has only cgroup v2.
bats_require_minimum_version 1.5.0

REPOSITORY=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
export MUSTER_BUILD=${MUSTER_BUILD:-$REPOSITORY/build}
vm() { "$REPOSITORY/tests/lab-vm/lab-vm" "$@"; }

setup_file() {
  tar -cf "$BATS_FILE_TMPDIR/lab.tar" -C "$REPOSITORY/tests" lab
  vm up --owner "$$" --carry "$BATS_FILE_TMPDIR/lab.tar" >"$BATS_FILE_TMPDIR/up" ||
    { cat "$BATS_FILE_TMPDIR/up"; return 1; }
}
teardown_file() { vm down >/dev/null; }

@test "with cgroup v2 only, the lab starts, isolates GPUs, and leaves nothing behind" {
  # shellcheck disable=SC2016 # expanded in the guest
  run --separate-stderr vm exec --deadline 400 'set -e
    mkdir -p /tmp/muster/tests
    tar -xf /opt/muster/bin/lab.tar -C /tmp/muster/tests
    cp -r /opt/muster/bin /opt/muster/lib /tmp/muster
    lab() { MUSTER_LAB_DEADLINE=200 bash /tmp/muster/tests/lab/lab "$@"; }
    export MUSTER_LAB=v2
    lab up --owner $$ --nodes 2 --gpus 2 --cpus 4 --plugin /tmp/muster/lib/spank_muster.so
    # Opening a device file without a driver fails with "No such device"; if the cgroup denies it, with
    # "Operation not permitted".
    cat >/tmp/muster/task <<"TASK"
refused=0
for gpu in /dev/nvidia[0-9]; do
  [[ $( (: <>"$gpu") 2>&1) != *"not permitted"* ]] || refused=$((refused + 1))
done
echo "$1 $SLURM_PROCID refused=$refused shown=$CUDA_VISIBLE_DEVICES placed=${MUSTER_GPUS-}"
TASK
    lab exec srun -N2 -n4 --gpus-per-task=1 bash /tmp/muster/task alone
    lab exec srun -N2 -n4 --gpus-per-task=1 --muster=strict bash /tmp/muster/task muster
    lab down
    echo "left: $(find /sys/fs/cgroup -name "muster-lab*" | wc -l)"'
  echo "$output"
  # shellcheck disable=SC2154 # bats sets it
  echo "$stderr"
  [ "$status" = 0 ]
  [[ ${lines[0]} == "lab v2: 2 nodes (n0,n1), 2 fake GPUs and "*" cgroup v2, isolation on"* ]]
  [ "$(grep -c '^alone . refused=1 shown=0 placed=$' <<<"$output")" = 4 ]
  # Each node's two tasks have its two GPUs.
  [ "$(sed -n 's/^muster . .*placed=//p' <<<"$output" | sort | uniq -c | awk '{print $1}' | paste -sd' ')" = "2 2" ]
  [ "${lines[-1]}" = "left: 0" ]
}
