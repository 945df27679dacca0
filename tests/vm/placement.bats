#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Slurm alone and with Muster on a virtual machine with 4 NUMA domains, 4 fake GPUs and 4 RDMA devices; see
# docs/lab-vm.md. The tests depend on their order: the last one powers the machine off.
bats_require_minimum_version 1.5.0

REPOSITORY=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
export MUSTER_BUILD=${MUSTER_BUILD:-$REPOSITORY/build}
vm() { "$REPOSITORY/tests/lab-vm/lab-vm" "$@"; }
probe=/opt/muster/bin/vm_probe

setup_file() {
  vm up --owner "$$" --carry "$MUSTER_BUILD/bin/vm_probe" >"$BATS_FILE_TMPDIR/up" || { cat "$BATS_FILE_TMPDIR/up"; return 1; }
  sed 's/^/# /' "$BATS_FILE_TMPDIR/up" >&3
}
# Not an error if the last test has already powered it off.
teardown_file() { vm down >/dev/null 2>&1 || true; }

# on_vm COMMAND: runs one command line in the guest; stdout goes to $output, stderr to $stderr.
on_vm() { run --separate-stderr vm exec --deadline 180 "$1"; [ "$status" = 0 ] || { echo "$output"; echo "$stderr"; return 1; }; }

# judge LABEL [TEXT]: prints the table of $output (or TEXT) to the screen; sets wrong_cpus, wrong_memory and
# wrong_nics.
judge() {
  local table
  table=$(sort <<<"${2:-$output}" | awk -v label="$1" -f "$REPOSITORY/tests/vm/judge.awk")
  sed '$d; s/^/# /' <<<"$table" >&3
  read -r _ wrong_cpus wrong_memory wrong_nics _ tasks <<<"$(tail -n 1 <<<"$table")"
  [ "$tasks" = 4 ] || { echo "$1: $tasks tasks: $output $stderr"; return 1; }
}

# values NAME [TEXT]: prints the tasks' values by rank, on one line.
values() { sort <<<"${2:-$output}" | grep -o " $1=[^ ]*" | cut -d= -f2 | paste -sd' '; }

# count LIST: prints the number of CPUs in a list such as "0-3,8".
count() {
  local part n=0
  for part in ${1//,/ }; do n=$((n + ${part#*-} - ${part%-*} + 1)); done
  echo "$n"
}

# section NAME: prints the part of $output below "== NAME".
section() { awk -v name="== $1" '/^==/ { on = $0 == name; next } on' <<<"$output"; }

@test "the kernel sees 4 NUMA domains, 4 GPUs and 4 RDMA devices, one of each on a domain" {
  on_vm 'nproc; cat /sys/devices/system/node/node*/distance; cat /sys/devices/system/node/node*/cpulist | paste -sd" "
    for d in /sys/bus/pci/devices/*; do [ $(<$d/vendor) != 0x10de ] || echo gpu $(<$d/class) $(<$d/numa_node); done
    for d in /sys/class/infiniband/*; do echo nic $(<$d/device/numa_node) $(<$d/ports/1/link_layer) $(<$d/ports/1/state); done | sort'
  [ "$(head -n 6 <<<"$output" | paste -sd/)" = "16/10 12 32 32/12 10 32 32/32 32 10 12/32 32 12 10/0-3 4-7 8-11 12-15" ]
  [ "$(grep ^gpu <<<"$output" | paste -sd/)" = "gpu 0x030200 0/gpu 0x030200 1/gpu 0x030200 2/gpu 0x030200 3" ]
  for domain in 0 1 2 3; do [ "$(grep -c "^nic $domain Ethernet 4: ACTIVE" <<<"$output")" = 1 ]; done
}

@test "Slurm alone puts 2 or 3 of 4 tasks on the wrong NUMA domain, with 1, 2 and 4 CPUs per task" {
  on_vm "for c in 1 2 4; do echo == \$c; srun -n4 -c\$c --gpus-per-task=1 $probe; done"
  for cpus in 1 2 4; do
    judge "Slurm alone, $cpus CPUs per task" "$(section $cpus)"
    ((wrong_cpus == 2 || wrong_cpus == 3))
    ((wrong_memory >= 2))
    # Isolated: each task opens one device, and cannot open its neighbours'.
    [ "$(values opened "$(section $cpus)")" = "0 1 2 3" ]
  done
}

@test "in a job with the whole node Muster puts no task on a wrong domain, isolated or not; memory and NIC are the GPU's" {
  on_vm "for c in 1 2 4; do salloc -Q -p whole -n4 -c\$c --gpus-per-task=1 --muster bash -c '
    echo == shared \$0; srun $probe; echo == isolated \$0; srun --gpu-bind=per_task:1 $probe' \$c; done"
  for cpus in 1 2 4; do
    for devices in shared isolated; do
      text=$(section "$devices $cpus")
      judge "Muster, $cpus CPUs, devices $devices" "$text"
      [ "$wrong_cpus $wrong_memory $wrong_nics" = "0 0 0" ]
      [ "$(values cpus "$text")" = "$(values muster_cpus "$text")" ]
      for list in $(values cpus "$text"); do [ "$(count "$list")" = "$cpus" ]; done
      if [ "$devices" = shared ]; then
        [ "$(values opened "$text")" = "0,1,2,3 0,1,2,3 0,1,2,3 0,1,2,3" ]
        echo "$text" >"$BATS_FILE_TMPDIR/shared"
      else
        # Opening an allowed device without a driver fails with ENXIO, a device that the filter denies with
        # EPERM.
        [ "$(values opened "$text")" = "0 1 2 3" ]
        [ "$(values denied "$text")" = "1,2,3 0,2,3 0,1,3 0,1,2" ]
      fi
    done
  done
}

@test "within the cores that Slurm gave the step, each task of an isolated srun --muster is as near to its GPU as they allow" {
  on_vm "sed -i 's|muster.so.*|muster.so isolation=keep|' /etc/slurm/plugstack.conf
    for c in 1 2 4; do echo == \$c; srun -n4 -c\$c --gpus-per-task=1 --muster $probe; done
    sed -i 's|muster.so.*|muster.so|' /etc/slurm/plugstack.conf"
  for cpus in 1 2 4; do
    text=$(section $cpus)
    judge "Muster in Slurm's cores, $cpus CPUs" "$text"
    [ "$(values opened "$text")" = "0 1 2 3" ]
    [ "$wrong_memory $wrong_nics" = "0 0" ]
    # With 1 and 2 CPUs per task Slurm gives the step cores only on domains 0 and 2: no core is local to the
    # other two GPUs.
    if [ $cpus = 4 ]; then [ "$wrong_cpus" = 0 ]; else [ "$(values cpu_domains "$text")" = "0 0 2 2" ]; fi
  done
}

@test "muster plan in the guest prints the plugin's placement, with every NIC PIX from its GPU" {
  on_vm "muster() { /opt/muster/bin/muster \"\$@\"; }; muster plan --cpus-per-task 4 --format json"
  run python3 - "$BATS_FILE_TMPDIR/shared" <<<"import json, sys
plan = json.loads('''$output''')
done = {}
for line in open(sys.argv[1]):
    task = dict(word.split('=', 1) for word in line.split())
    done[int(task['rank'])] = (task['muster_cpus'], task['muster_memory'], task['nics'])
planned = {t['local_rank']: (t['cpus'], ','.join(map(str, t['memory'])), ','.join(t['nics'])) for t in plan['tasks']}
first = {rank: (cpus, memory.split(',')[0], nics) for rank, (cpus, memory, nics) in planned.items()}
assert {rank: (c, m.split(',')[0], n) for rank, (c, m, n) in done.items()} == first, (done, planned)
assert [t['gpu_nic'] for t in plan['tasks']] == ['PIX'] * 4, plan['tasks']
assert [g['numa'] for g in plan['node']['gpus']] == [0, 1, 2, 3], plan['node']"
  echo "$output"
  [ "$status" = 0 ]
}

@test "RDMA devices without a sysfs location (unpatched rxe) are used, with unknown locality" {
  on_vm 'for link in /sys/class/infiniband/*; do rdma link delete ${link##*/}; done; rmmod rdma_rxe && insmod /opt/lab/rdma_rxe.stock.ko || exit 1
    n=0; for card in /sys/class/net/*; do [ ! -e $card/device ] || { rdma link add soft$n type rxe netdev ${card##*/}; n=$((n + 1)); }; done
    ls /sys/class/infiniband | wc -l; ls -d /sys/class/infiniband/*/device 2>/dev/null | wc -l
    srun -p whole -n4 --gpus-per-task=1 --muster bash -c "echo nics=\$MUSTER_NICS; ls /sys/class/infiniband | grep -qx \${MUSTER_NICS%:*} && echo exists"
    /opt/muster/bin/muster plan'
  echo "$output"
  [ "$(head -n 2 <<<"$output" | paste -sd' ')" = "4 0" ]
  [ "$(grep -c ^nics= <<<"$output")" = 4 ]
  # A name of one of the former devices would stop NCCL.
  [ "$(grep -c '^exists$' <<<"$output")" = 4 ]
  grep -qE '^0 .*0000:17:00.0.* unknown$' <<<"$output"
}

@test "no node was drained, and the machine powers off by itself" {
  on_vm 'sinfo -h -o "%T %E"; grep -cE "drain|DRAIN|segfault" /var/log/slurmctld /var/log/slurmd; dmesg | grep -cE "segfault|Oops:"; true'
  echo "$output"
  [ "$(head -n 1 <<<"$output")" = "idle none" ]
  [ "$(tail -n 3 <<<"$output" | paste -sd' ')" = "/var/log/slurmctld:0 /var/log/slurmd:0 0" ]
  run vm down
  echo "$output"
  [ "$status" = 0 ]
}
