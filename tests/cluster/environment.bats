#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The environment of a task on a real Slurm of three nodes whose networks differ.
load setup

setup_file() {
  profiles=$BATS_FILE_TMPDIR/profiles
  mkdir -m 755 "$profiles"
  export profiles
  lab_up --nodes 3 --gpus 2 --cpus 4 --no-isolate --plugin "$(plugin)" --plugin-args "profiles=$profiles"
}
teardown_file() { lab_down; }

show='for v in "$@"; do echo "$SLURM_PROCID $v=${!v-unset}"; done'
# another_link NODE NAME ADDRESS…: adds a link that leads nowhere but has a route.
another_link() {
  on_node "$1" ip link add "$2" type veth peer name "$2-end"
  on_node "$1" ip link set "$2-end" up
  on_node "$1" ip link set "$2" up
  on_node "$1" ip address add "$3" dev "$2" "${@:4}"
}
placed() { run on_lab srun --muster "$@"; [ "$status" = 0 ]; }

@test "a GPU that --gpu-bind names gets CUDA's number: CUDA counts in PCI order, Slurm like the device files" {
  placed -N1 -n2 --gpus=2 --gpu-bind=map_gpu:1,0 bash -c '
    file=/proc/driver/nvidia/gpus/$MUSTER_GPUS/information
    echo "$SLURM_PROCID minor=$(sed -n "s/^Device Minor:[[:space:]]*//p" "$file")"
    echo "$SLURM_PROCID number=$CUDA_VISIBLE_DEVICES"'
  [ "$(value minor)/$(value number)" = "1 0/0 1" ]
}

@test "MASTER_ADDR is rank 0's node and TF_CONFIG names each rank's, for every distribution" {
  hosts='echo "$SLURM_PROCID host=$SLURMD_NODENAME"; echo "$SLURM_PROCID config=$TF_CONFIG"; echo "$SLURM_PROCID master=$MASTER_ADDR"'
  for wish in --distribution=block --distribution=cyclic --distribution=plane=2 ""; do
    # shellcheck disable=SC2086 # no word or one
    placed -N3 -n8 $wish bash -c "$hosts"
    /usr/bin/python3 -c '
import json, re, sys
found = {}
for rank, name, value in re.findall(r"^(\d+) (\w+)=(.*)$", sys.argv[1], re.M):
    found.setdefault(name, {})[int(rank)] = value
hosts = [found["host"][rank] for rank in range(8)]
assert set(found["master"].values()) == {hosts[0]}, found
for rank in range(8):
    config = json.loads(found["config"][rank])
    workers = config["cluster"]["worker"]
    assert config["task"] == {"type": "worker", "index": rank}, config
    assert [w.split(":")[0] for w in workers] == hosts, (workers, hosts)
    assert len(set(workers)) == 8, workers' "$output"
  done
}

@test "with --distribution=arbitrary srun publishes the layout, and each step gets its own" {
  printf 'n2\nn0\nn0\nn1\n' >"$BATS_TEST_TMPDIR/hosts"
  printf 'n1\nn0\nn1\nn1\n' >"$BATS_TEST_TMPDIR/others"
  run on_lab env SLURM_HOSTFILE="$BATS_TEST_TMPDIR/hosts" srun -n4 --muster bash -c "$show" - RANK MASTER_ADDR TF_CONFIG SLURMD_NODENAME
  echo "$output"
  [ "$status" = 0 ]
  [ "$(value SLURMD_NODENAME)" = "n2 n0 n0 n1" ]
  [ "$(value RANK)" = "0 1 2 3" ]
  [ "$(value MASTER_ADDR)" = "n2 n2 n2 n2" ]
  [ "$(grep -o '"worker":[^]]*' <<<"$output" | grep -oE 'n[0-9]:' | head -n 4 | paste -sd' ')" = "n2: n0: n0: n1:" ]
  # In one job, so that the first step's layout is in the environment of the second step's srun.
  run on_lab salloc -Q -N3 -n9 bash -c 'SLURM_HOSTFILE=$0/hosts srun -n4 --muster true
    export MUSTER_STEP_LAYOUT=$SLURM_JOB_ID.0:2,0,0,1
    SLURM_HOSTFILE=$0/others srun -n4 --muster bash -c "echo \$SLURM_PROCID a=\$MASTER_ADDR"' "$BATS_TEST_TMPDIR"
  echo "$output"
  [ "$(value a)" = "n1 n1 n1 n1" ]
}

@test "precedence: the user, then a profile that matches the node, then nccl.conf, then derived values; each source is named" {
  # Only n2 has an /etc/nccl.conf and, in slurm.conf, a feature.
  on_node n2 bash -c 'mkdir /run/etc && cp -a /etc/. /run/etc && printf "NCCL_SOCKET_IFNAME==hsn0\nNCCL_IB_TC=41\n" >/run/etc/nccl.conf &&
    mount --rbind /run/etc /etc'
  sed 's/^NodeName=.*/&\nNodeName=n2 Features=roce,fast/' "/run/muster-lab/$MUSTER_LAB/etc/slurm.conf" >"$BATS_TEST_TMPDIR/slurm.conf"
  on_node n2 mount --bind "$BATS_TEST_TMPDIR/slurm.conf" "/run/muster-lab/$MUSTER_LAB/etc/slurm.conf"
  printf '[match]\npartition = "l?b"\n[environment]\nNCCL_DEBUG = "WARN"\nOMP_NUM_THREADS = false\n' >"$profiles/10-all.conf"
  printf '[match]\nfeature = "roce"\n[environment]\nNCCL_IB_TC = "106"\nNCCL_DEBUG = "INFO"\n' >"$profiles/20-roce.conf"
  printf '[match]\ncluster = "other"\n[environment]\nNCCL_DEBUG = "TRACE"\n' >"$profiles/30-other.conf"
  names="NCCL_DEBUG NCCL_IB_TC NCCL_SOCKET_IFNAME OMP_NUM_THREADS GLOO_SOCKET_IFNAME MUSTER_SET MUSTER_KEPT"
  # shellcheck disable=SC2086 # names
  run on_lab env GLOO_SOCKET_IFNAME=mine srun -N2 -w n1,n2 -n2 --muster bash -c "$show" - $names
  [ "$status" = 0 ]
  [ "$(value NCCL_DEBUG)" = "WARN INFO" ]
  [ "$(value NCCL_IB_TC)" = "unset 106" ]
  [ "$(value NCCL_SOCKET_IFNAME)" = "=eth0 unset" ]
  [ "$(value OMP_NUM_THREADS)" = "unset unset" ]
  [ "$(value GLOO_SOCKET_IFNAME)" = "mine mine" ]
  [ "$(value MUSTER_KEPT)" = "GLOO_SOCKET_IFNAME NCCL_SOCKET_IFNAME,GLOO_SOCKET_IFNAME" ]
  grep -qE '^1 MUSTER_SET=.*,NCCL_DEBUG,NCCL_IB_TC$' <<<"$output"
  # The user's own file takes precedence over profiles.
  echo NCCL_DEBUG=VERSION >"$BATS_TEST_TMPDIR/mine.conf"
  run on_lab env NCCL_CONF_FILE="$BATS_TEST_TMPDIR/mine.conf" srun -w n2 -n1 --muster bash -c "$show" - NCCL_DEBUG MUSTER_KEPT
  [ "$(value NCCL_DEBUG)" = unset ]
  [[ "$(value MUSTER_KEPT)" == *NCCL_DEBUG* ]]
  on_node n2 umount -l "/run/muster-lab/$MUSTER_LAB/etc/slurm.conf" /etc
}

@test "--muster=explain prints each variable's source, once for equal nodes" {
  run on_lab env GLOO_SOCKET_IFNAME=mine srun -N2 -w n0,n1 -n2 --muster=explain true
  echo "$output"
  [ "$status" = 0 ]
  [ "$(grep -c 'GLOO_SOCKET_IFNAME=mine: set already' <<<"$output")" = 1 ]
  [ "$(grep -c 'NCCL_SOCKET_IFNAME==eth0: the interface that routes to another node of the step' <<<"$output")" = 1 ]
  [ "$(grep -cE "NCCL_DEBUG=WARN: $profiles/10-all.conf" <<<"$output")" = 1 ]
  [ "$(grep -cE "OMP_NUM_THREADS not set: left alone: $profiles/10-all.conf" <<<"$output")" = 1 ]
}

@test "a broken profile is one line in auto, and ends the step in strict" {
  printf '[environment]\nNCCL_IB_TC = 106\n' >"$profiles/15-broken.conf"
  placed -N2 -n2 bash -c "$show" - NCCL_DEBUG
  [ "$(grep -c 'profile ' <<<"$output")" = 1 ]
  [[ "$output" == *"15-broken.conf, line 2: NCCL_IB_TC must be a text in quotes"* ]]
  [[ "$(value NCCL_DEBUG)" == WARN* ]]
  run on_lab srun -n1 --muster=strict true
  [ "$status" != 0 ]
  [[ "$output" == *"15-broken.conf, line 2"* ]]
  rm "$profiles"/*.conf
}

@test "ports that Slurm reserved are used" {
  MUSTER_LAB=$MUSTER_LAB-ports
  "$LAB_COMMAND" up --owner "$$" --nodes 1 --gpus 0 --plugin "$(plugin)" --etc <(echo MpiParams=ports=12000-12099)
  run --separate-stderr "$LAB_COMMAND" exec srun -n2 --resv-ports=4 --muster bash -c "$show" - SLURM_STEP_RESV_PORTS MASTER_PORT JAX_COORDINATOR_ADDRESS TF_CONFIG
  "$LAB_COMMAND" down
  [ "$status" = 0 ]
  first=$(grep -m1 -oP 'RESV_PORTS=\K[0-9]+' <<<"$output")
  [ "$(value MASTER_PORT)" = "$first $first" ]
  [ "$(value JAX_COORDINATOR_ADDRESS)" = "n0:$((first + 1)) n0:$((first + 1))" ]
  [[ "$output" == *"\"n0:$((first + 2))\",\"n0:$((first + 3))\""* ]]
}

@test "each node finds the socket interface by the route to another node of the step, for any name" {
  # n1's interface is renamed, and every node's default route leads elsewhere.
  on_node n1 ip link set eth0 down
  on_node n1 ip link set eth0 name ib7
  on_node n1 ip link set ib7 up
  for node in n0 n1 n2; do
    another_link "$node" wrong0 192.0.2.7/24
    on_node "$node" ip route add default dev wrong0
  done
  placed -N3 -n3 bash -c "$show" - GLOO_SOCKET_IFNAME NCCL_SOCKET_IFNAME
  [ "$(value GLOO_SOCKET_IFNAME)" = "eth0 ib7 eth0" ]
  [ "$(value NCCL_SOCKET_IFNAME)" = "=eth0 =ib7 =eth0" ]
}

@test "a step on n0 and n1 that is started from n2 uses the interface between n0 and n1" {
  # Only n0 and n1 have a second network; from now on their names resolve to it.
  for node in n0 n1; do
    another_link "$node" fast0 "198.51.100.1${node#n}/24"
    on_node "$node" bash -c 'echo "198.51.100.10 n0" >/run/hosts; echo "198.51.100.11 n1" >>/run/hosts
      grep -v " n[01]$" /etc/hosts >>/run/hosts; mount --bind /run/hosts /etc/hosts'
  done
  run on_node n2 srun -N2 -w n0,n1 -n2 --muster bash -c "$show" - GLOO_SOCKET_IFNAME
  [ "$status" = 0 ]
  [ "$(value GLOO_SOCKET_IFNAME)" = "fast0 fast0" ]
}

@test "IPv6 routes count as well" {
  for node in n0 n1; do
    another_link "$node" six0 "fd66::1${node#n}/64" nodad
    on_node "$node" bash -c 'umount /etc/hosts; echo "fd66::10 n0" >/run/hosts; echo "fd66::11 n1" >>/run/hosts
      cat /etc/hosts >>/run/hosts; mount --bind /run/hosts /etc/hosts'
  done
  placed -N2 -w n0,n1 -n2 bash -c "$show" - GLOO_SOCKET_IFNAME
  [ "$(value GLOO_SOCKET_IFNAME)" = "six0 six0" ]
}

@test "a name server that does not answer for longer than a plan may take does not cost a step its plan" {
  on_node n0 bash -c 'umount /etc/hosts; grep -v " n1$" /etc/hosts >/run/hosts; mount --bind /run/hosts /etc/hosts
    printf "nameserver 192.0.2.99\noptions timeout:30 attempts:5\n" >/run/resolv.conf; mount --bind /run/resolv.conf /etc/resolv.conf
    ip route replace default dev wrong0; ip neigh replace 192.0.2.99 lladdr 02:00:00:00:00:99 dev wrong0 nud permanent'
  # If n0 waited as long as that file says, its plan would not be ready in 20 s, and its tasks would have no plan.
  placed -N2 -w n0,n1 -n4 bash -c "$show" - GLOO_SOCKET_IFNAME SLURMD_NODENAME
  # By the route to srun, on the controller, because n0 cannot resolve n1.
  [[ "$(value GLOO_SOCKET_IFNAME)" == "eth0 eth0 "* ]]
}
