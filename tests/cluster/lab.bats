#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The lab itself: a real Slurm starts, its nodes are separate, and nothing of it remains, however it ends.

load setup

setup_file() {
  lab_up --nodes 2 --gpus 2 >"$BATS_FILE_TMPDIR/up" 2>&1 || { cat "$BATS_FILE_TMPDIR/up" && return 1; }
  cat >"$BATS_FILE_TMPDIR/open_gpus" <<'END'
#!/bin/bash
# Prints the result of opening each GPU's device file, for example nvidia0=ENXIO nvidia1=EPERM.
for device in /dev/nvidia?; do
  case $(LC_ALL=C bash -c ': <"$1"' - "$device" 2>&1) in
    *"No such device or address") result=ENXIO ;;
    *"Operation not permitted") result=EPERM ;;
    *) result=other ;;
  esac
  line+=" ${device#/dev/}=$result"
done
echo "${line# }"
END
  chmod +x "$BATS_FILE_TMPDIR/open_gpus"
}

teardown_file() { lab_down; }

isolated() { [[ $(<"$BATS_FILE_TMPDIR/up") == *"isolation on"* ]]; }

@test "lab up starts two nodes and prints one line" {
  run -0 cat "$BATS_FILE_TMPDIR/up"
  ((${#lines[@]} == 1))
  [[ $output == "lab $MUSTER_LAB: 2 nodes (n0,n1), 2 fake GPUs and "*" cgroup"*", isolation o"*", up in "*" s" ]]
}

@test "status shows every node idle" {
  run -0 lab status
  [[ ${lines[2]} =~ ^n0\ +idle && ${lines[3]} =~ ^n1\ +idle ]]
}

@test "four tasks on two nodes start over PMIx" {
  needs_pmix
  run -0 --separate-stderr on_lab srun -N2 -n4 -l --mpi=pmix hostname
  [[ $(sort <<<"$output") == $'0: n0\n1: n0\n2: n1\n3: n1' ]]
}

# job_stderr: a job's stderr, without Slurm's note that the previous job is still completing.
job_stderr() { grep -v '^srun: job [0-9]* \(queued and waiting\|has been allocated\)' <<<"$stderr" | grep . || true; }

@test "MPI sums over both nodes without other output" {
  needs_pmix
  mpicc -o "$BATS_TEST_TMPDIR/sum" "$REPOSITORY/tests/cluster/mpi_sum.c"
  # In steps of fewer nodes than TreeWidth, Slurm's plain PMIx fence, which ends MPI_Init, does not wait for
  # other nodes unless it uses the ring: a fast rank's first message then reaches an unprepared slow rank.
  export OMPI_MCA_mpi_yield_when_idle=1 SLURM_PMIX_FENCE=ring
  run -0 --separate-stderr on_lab srun -N2 -n4 --mpi=pmix "$BATS_TEST_TMPDIR/sum"
  [[ -z $(job_stderr) ]] || { job_stderr && false; }
  [[ $(sort <<<"$output") == $'0 of 4: 15\n1 of 4: 15\n2 of 4: 15\n3 of 4: 15' ]]
}

@test "nodes have their own name, address, /tmp, boot id, processes and network devices, and the same files" {
  local node
  for node in n0 n1; do
    run -0 on_node "$node" bash -c 'hostname; cat /proc/sys/kernel/random/boot_id; hostname -I; echo /sys/class/net/*; ps -e --no-headers | wc -l; touch "/tmp/$(hostname)"; echo /tmp/n?'
    [[ ${lines[0]} == "$node" ]]
    [[ ${lines[1]} != "${other:-$(</proc/sys/kernel/random/boot_id)}" ]]
    other=${lines[1]}
    [[ ${lines[2]} == 10.66.0.1${node#n}* ]]
    [[ ${lines[3]} == "/sys/class/net/eth0 /sys/class/net/lo" ]]
    ((lines[4] < 30))
    [[ ${lines[5]} == "/tmp/$node" ]]
  done
  run -0 on_node n0 getent hosts n1
  [[ $output == 10.66.0.11* ]]
  echo same >"$BATS_TEST_TMPDIR/file"
  run -0 --separate-stderr on_lab srun -N2 cat "$BATS_TEST_TMPDIR/file"
  [[ $output == $'same\nsame' ]]
  [[ ! -e /tmp/n0 && ! -e /tmp/n1 ]]
}

@test "the fake GPUs are distinct, and their order by PCI address differs from that of their numbers" {
  run -0 on_node n0 cat /proc/driver/nvidia/gpus/0000:41:00.0/information
  [[ ${lines[0]} == "Model: "*"Lab stand-in GPU" && $output == *"Bus Location: "*"0000:41:00.0"*"Device Minor: "*" 0"* ]]
  run -0 on_node n0 cat /proc/driver/nvidia/gpus/0000:01:00.0/information
  [[ $output == *"Device Minor: "*" 1"* ]]
  local node
  for node in n0 n1; do on_node "$node" grep -h UUID -r /proc/driver/nvidia/gpus; done >"$BATS_TEST_TMPDIR/uuids"
  (($(sort -u "$BATS_TEST_TMPDIR/uuids" | grep -cE 'GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$') == 4))
}

@test "with --gpus-per-task=1 a task can open only its own device" {
  isolated || skip "no usable cgroup here: $(<"$BATS_FILE_TMPDIR/up")"
  run -0 --separate-stderr on_lab srun -N2 -n4 -l --gpus-per-task=1 "$BATS_FILE_TMPDIR/open_gpus"
  [[ $(sort <<<"$output") == $'0: nvidia0=ENXIO nvidia1=EPERM\n1: nvidia0=EPERM nvidia1=ENXIO\n2: nvidia0=ENXIO nvidia1=EPERM\n3: nvidia0=EPERM nvidia1=ENXIO' ]]
}

@test "a batch job's tasks too; without GPU binding they can open every device of the step" {
  isolated || skip "no usable cgroup here: $(<"$BATS_FILE_TMPDIR/up")"
  cat >"$BATS_TEST_TMPDIR/job" <<'END'
#!/bin/bash
# On a busy machine srun prints to stderr that it waits for the previous step.
srun -l "$1" 2>/dev/null | sort
# Slurm 23.11 and later prefer the job's SLURM_TRES_BIND.
SLURM_GPU_BIND=none SLURM_TRES_BIND=gres/gpu:none srun -l "$1" 2>/dev/null | sort
END
  run -0 on_lab sbatch --wait -N2 -n4 --gpus-per-task=1 -o "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/job" "$BATS_FILE_TMPDIR/open_gpus"
  run -0 cat "$BATS_TEST_TMPDIR/out"
  [[ ${lines[0]} == "0: nvidia0=ENXIO nvidia1=EPERM" && ${lines[3]} == "3: nvidia0=EPERM nvidia1=ENXIO" ]]
  [[ ${lines[4]} == "0: nvidia0=ENXIO nvidia1=ENXIO" && ${lines[7]} == "3: nvidia0=ENXIO nvidia1=ENXIO" ]]
}

@test "tasks are confined to their cores" {
  isolated || skip "no usable cgroup here: $(<"$BATS_FILE_TMPDIR/up")"
  run -0 --separate-stderr on_lab srun -n1 -c1 nproc
  [[ $output == 1 ]]
}

no_job() {
  local jobs
  jobs=$(on_lab squeue -h) && [[ -z $jobs ]]
}

@test "lab exec returns exit codes, and when it is killed its command ends" {
  run -7 lab exec sh -c 'exit 7'
  run -9 lab node n0 sh -c 'exit 9'
  # Jobs of earlier tests may still be completing.
  wait_until no_job
  "$LAB_COMMAND" exec srun sleep 300 3>&- &
  wait_until '[[ -n $(on_lab squeue -h -t R) ]]'
  kill -KILL $!
  wait_until no_job
}

@test "wrong input fails with one line" {
  local words name=$MUSTER_LAB
  while read -r -a words; do
    echo "lab ${words[*]}"
    run ! lab "${words[@]}"
    ((${#lines[@]} == 1))
    [[ $output == "lab: "* ]]
  done <<END
dance
up
up --nodes 2
up --nodes 0 --gpus 2
up --nodes 2 --gpus two
up --nodes 2 --gpus 2 --unknown
up --nodes 2 --gpus
up --nodes 2 --gpus 2 --plugin /no/such/plugin.so
up --nodes 2 --gpus 2 --plugin-args x
up --nodes 2 --gpus 2 --owner nobody
up --nodes 2 --gpus 2 --owner 999999999
up --nodes 2 --gpus 2 --name A/b
up --nodes 2 --gpus 2 --etc /no/such/file
up --nodes 2 --gpus 2 --etc /etc/hostname
up --nodes 2 --gpus 2 --share /no/such/folder
up --nodes 2 --gpus 2 --name $name
node
node n7 true
exec
down --name not-there
status extra
END
}

@test "every job loads the lab's plugin, and with a missing Slurm plugin lab up names the log at fault" {
  cat >"$BATS_TEST_TMPDIR/spank.c" <<'END'
#include <slurm/spank.h>
SPANK_PLUGIN(lab_probe, 1)
int slurm_spank_task_init(spank_t spank, int argc, char **argv) {
  return spank_setenv(spank, "LAB_PROBE", argc == 2 ? argv[1] : "?", 1) == ESPANK_SUCCESS ? 0 : -1;
}
END
  gcc -shared -fPIC -I "$(dirname "$(dirname "$(command -v slurmd)")")/include" -o "$BATS_TEST_TMPDIR/spank.so" "$BATS_TEST_TMPDIR/spank.c"
  local name=second.$$
  lab up --name "$name" --owner "$$" --nodes 1 --gpus 1 --plugin "$BATS_TEST_TMPDIR/spank.so" --plugin-args 'one two'
  run -0 --separate-stderr lab --name "$name" exec srun printenv LAB_PROBE
  [[ $output == two ]]
  # Both labs work side by side.
  run -0 --separate-stderr on_lab srun -N2 hostname
  lab --name "$name" down
  run ! lab up --name "$name" --owner "$$" --nodes 1 --gpus 1 --etc <(echo SelectType=select/nonsense)
  [[ $output == *"--- last lines of "*"select/nonsense"*"lab: did not come up"* ]]
  [[ ! -e /run/muster-lab/$name ]]
}

@test "a lab can claim more CPUs than the machine has, and --etc FOLDER replaces lines of slurm.conf and other files" {
  local name=large.$$
  mkdir "$BATS_TEST_TMPDIR/etc"
  printf '# Longer than the lab has it.\n\nKillWait=7\nTopologyPlugin=topology/tree\n' >"$BATS_TEST_TMPDIR/etc/slurm.conf"
  echo 'SwitchName=one Nodes=n[0-1]' >"$BATS_TEST_TMPDIR/etc/topology.conf"
  lab up --name "$name" --owner "$$" --nodes 2 --gpus 4 --cpus $(($(nproc --all) + 6)) --etc "$BATS_TEST_TMPDIR/etc"
  run -0 --separate-stderr lab --name "$name" exec srun -N2 -n8 --gpus-per-task=1 hostname
  [[ $(sort <<<"$output" | uniq -c | tr -s ' ') == $' 4 n0\n 4 n1' ]]
  run -0 lab --name "$name" exec scontrol show config
  [[ $output =~ KillWait\ +=\ 7\ sec ]]
  run -0 lab --name "$name" exec scontrol show topology
  [[ $output == *"SwitchName=one "*"Nodes=n[0-1]"* ]]
  lab --name "$name" down
}

@test "without a cgroup the lab works and prints so; with --isolate it fails" {
  local name=bare.$$
  run -0 unshare --mount bash -c 'umount -R /sys/fs/cgroup && exec "$@"' - "$LAB_COMMAND" up --name "$name" --owner "$$" --nodes 2 --gpus 2
  [[ $output == *"no cgroup (no cgroup hierarchy at /sys/fs/cgroup), isolation off"* ]]
  run -0 --separate-stderr lab --name "$name" exec srun -N2 -n4 --gpus-per-task=1 --mpi="$LAB_MPI" hostname
  lab --name "$name" down
  run ! unshare --mount bash -c 'umount -R /sys/fs/cgroup && exec "$@"' - "$LAB_COMMAND" up --name "$name" --owner "$$" --nodes 1 --gpus 1 --isolate
  [[ $output == "lab: --isolate: no cgroup hierarchy at /sys/fs/cgroup" ]]
}

@test "when the machine refuses something, one line names what the lab needs" {
  local missing
  for missing in sys_admin mknod net_admin; do
    run ! setpriv --bounding-set "-$missing" "$LAB_COMMAND" up --name "refused.$$" --owner "$$" --nodes 1 --gpus 1
    ((${#lines[@]} == 1))
    [[ $output == "lab: "*" refused here ("*"needs CAP_${missing^^}"* ]]
  done
  run ! setpriv --reuid 65534 --clear-groups --inh-caps +dac_read_search --ambient-caps +dac_read_search "$LAB_COMMAND" up --name "refused.$$" --owner "$$" --nodes 1 --gpus 1
  [[ $output == "lab: needs root"* && ${#lines[@]} == 1 ]]
}
