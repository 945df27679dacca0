#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Open MPI's start under srun --mpi=pmix, or mpirun if Slurm has no PMIx: Muster's variables for programs that
# call MPI_Init themselves.
load setup

setup_file() {
  lab_up --nodes 2 --gpus 0 --plugin "$(plugin)"
  # Debian testing's own parameter file confines Open MPI to loopback.
  for node in ctl n0 n1; do
    on_node "$node" bash -c 'mkdir /run/openmpi && cp -L /etc/openmpi/* /run/openmpi && sed -i /^btl_tcp_if/d /run/openmpi/openmpi-mca-params.conf &&
      mount --bind /run/openmpi /etc/openmpi'
  done
  mpicc -o "$BATS_FILE_TMPDIR/sum" "$REPOSITORY/tests/cluster/mpi_sum.c"
  # shellcheck disable=SC2046 # flags
  cc -shared -fPIC -pthread $(pkg-config --cflags pmix) -o "$BATS_FILE_TMPDIR/late_fence.so" "$REPOSITORY/tests/cluster/late_fence.c" -ldl
  allow_mpirun
}
teardown_file() { lab_down; }

# sums WRAPPER…: four ranks on two nodes sum their numbers.
sums() {
  run -0 --separate-stderr over_mpi -N2 -n4 --muster -- "$@" "$BATS_FILE_TMPDIR/sum"
  [ "$(sort <<<"$output")" = $'0 of 4: 15\n1 of 4: 15\n2 of 4: 15\n3 of 4: 15' ]
}

@test "MPI_Init ends on all nodes before the first message: a node where the exchange ends late loses no rank" {
  needs_pmix
  for node in n0 n1; do
    sums env LD_PRELOAD="$BATS_FILE_TMPDIR/late_fence.so" LATE_NODE=$node
  done
}

@test "steps of several nodes get a PMIx fence that is a barrier, unless the user sets one or switches Muster off" {
  # shellcheck disable=SC2016 # the tasks expand it
  show='PATH=/usr/bin:/bin; echo "$SLURM_PROCID fence=${SLURM_PMIX_FENCE-unset}"; echo "$SLURM_PROCID set=$(grep -o SLURM_PMIX_FENCE <<<"$MUSTER_SET")"; echo "$SLURM_PROCID kept=$(grep -o SLURM_PMIX_FENCE <<<"$MUSTER_KEPT")"'
  seen() { echo "$(value fence)/$(value set)/$(value kept)"; }
  run -0 --separate-stderr on_lab srun -N2 --muster bash -c "$show"
  [ "$(seen)" = "ring ring/SLURM_PMIX_FENCE SLURM_PMIX_FENCE/ " ]
  run -0 --separate-stderr on_lab srun -N2 --export=NONE --muster /bin/bash -c "$show"
  [ "$(seen)" = "ring ring/SLURM_PMIX_FENCE SLURM_PMIX_FENCE/ " ]
  SLURM_PMIX_FENCE=mixed run -0 --separate-stderr on_lab srun -N2 --muster bash -c "$show"
  [ "$(seen)" = "mixed mixed/ /SLURM_PMIX_FENCE SLURM_PMIX_FENCE" ]
  for option in --muster=off --muster=env=off; do
    run -0 --separate-stderr on_lab srun -N2 $option bash -c "$show"
    [ "$(value fence)" = "unset unset" ]
  done
  run -0 --separate-stderr on_lab srun -N1 --muster bash -c "$show"
  [ "$(value fence)" = "unset" ]
  # mpi/pmix would print an error in such a step.
  SLURM_PMIX_DIRECT_CONN=no run -0 --separate-stderr on_lab srun -N2 --muster bash -c "$show"
  [ "$(value fence)" = "unset unset" ]
  run -0 on_lab srun -N2 --muster=explain true
  [[ "$output" == *"SLURM_PMIX_FENCE=ring: by a ring MPI_Init ends on all nodes before the first message"* ]]
}

@test "a step inside a step has its own fence" {
  # shellcheck disable=SC2016 # the tasks expand it
  run -0 --separate-stderr on_lab salloc --quiet -N2 srun -N1 -n1 --muster \
    srun --overlap -N2 -n2 --muster bash -c 'echo "$SLURM_PROCID fence=$SLURM_PMIX_FENCE"; echo "$SLURM_PROCID set=$(grep -o SLURM_PMIX_FENCE <<<"$MUSTER_SET")"'
  [ "$(value fence)/$(value set)" = "ring ring/SLURM_PMIX_FENCE SLURM_PMIX_FENCE" ]
}

# decoys up|down: adds to or removes from every node a bridge without ports and the far end of a VPN, with the
# same address on both nodes, like docker0.
decoys() {
  local node
  for node in n0 n1; do
    if [ "$1" = up ]; then
      on_node "$node" bash -c 'ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up &&
        ip link add vpn0 type veth peer name vpn0-end && ip addr add 10.8.0.1/24 dev vpn0 && ip link set vpn0-end up && ip link set vpn0 up'
    else
      on_node "$node" bash -c 'ip link del docker0; ip link del vpn0'
    fi
  done
}
# shellcheck disable=SC2016 # the tasks expand it
interface='echo "$SLURM_PROCID interface=${OMPI_MCA_btl_tcp_if_include-unset}"'

@test "among interfaces that lead nowhere Open MPI uses the one that reaches the other nodes, for any program and for libmuster alone" {
  decoys up
  for _ in 1 2 3; do
    sums
    # Without the plugin's variables the runtime finds it before MPI_Init.
    run -0 over_mpi -N2 -n4 --muster=off -- "$MUSTER_BUILD/bin/muster" bench --device=cpu --max=4K
  done
  run -0 --separate-stderr on_lab srun -N2 --muster bash -c "$interface"
  [ "$(value interface)" = "eth0 eth0" ]
  run -0 on_lab srun -N2 --muster=explain true
  [[ "$output" == *"OMPI_MCA_btl_tcp_if_include=eth0: the interface that routes to another node of the step"* ]]
  run -0 --separate-stderr on_lab srun -N2 --muster=nic=off bash -c "$interface"
  [ "$(value interface)" = "unset unset" ]
}

@test "a user's choice of Open MPI's interfaces is kept: by a variable, in the user's file or in that of the Open MPI on PATH" {
  run -0 --separate-stderr on_lab env OMPI_MCA_btl_tcp_if_include=10.66.0.0/24 srun -N2 --muster bash -c "$interface"
  [ "$(value interface)" = "10.66.0.0/24 10.66.0.0/24" ]
  OMPI_MCA_btl_tcp_if_exclude=lo,docker0,vpn0 sums
  home=$BATS_TEST_TMPDIR/home prefix=$BATS_TEST_TMPDIR/prefix
  mkdir -p "$home/.openmpi" "$prefix/bin" "$prefix/etc"
  echo ' btl_tcp_if_exclude = lo,docker0,vpn0' >"$home/.openmpi/mca-params.conf"
  HOME=$home sums
  run -0 on_lab env HOME="$home" srun -N2 --muster=explain true
  echo "$output"
  [[ "$output" == *"OMPI_MCA_btl_tcp_if_include not set: $home/.openmpi/mca-params.conf sets btl_tcp_if_exclude"* ]]
  HOME=$home run -0 over_mpi -N2 -n4 --muster=off -- "$MUSTER_BUILD/bin/muster" bench --device=cpu --max=4K
  cp /bin/true "$prefix/bin/mpirun"
  echo 'btl_tcp_if_include=eth0' >"$prefix/etc/openmpi-mca-params.conf"
  run -0 --separate-stderr on_lab env PATH="$prefix/bin:$PATH" srun -N2 --muster bash -c "$interface"
  [ "$(value interface)" = "unset unset" ]
  # A comment, and another setting.
  printf '# btl_tcp_if_include = eth7\nbtl_tcp_links = 1\n' >"$prefix/etc/openmpi-mca-params.conf"
  run -0 --separate-stderr on_lab env PATH="$prefix/bin:$PATH" srun -N2 --muster bash -c "$interface"
  [ "$(value interface)" = "eth0 eth0" ]
  decoys down
}

@test "if only one interface is up, Muster names it to Open MPI only if a parameter file confines that to loopback, as Debian testing's does" {
  run -0 --separate-stderr on_lab srun -N2 --muster bash -c "$interface"
  [ "$(value interface)" = "unset unset" ]
  for node in n0 n1; do on_node "$node" bash -c 'printf "\nbtl_tcp_if_include=lo\n" >>/etc/openmpi/openmpi-mca-params.conf'; done
  run -0 --separate-stderr on_lab srun -N2 --muster bash -c "$interface"
  [ "$(value interface)" = "eth0 eth0" ]
  sums
  # Without the plugin's variables the runtime finds it before MPI_Init.
  run -0 over_mpi -N2 -n4 --muster=off -- "$MUSTER_BUILD/bin/muster" bench --device=cpu --max=4K
  for node in n0 n1; do on_node "$node" sed -i /^btl_tcp_if/d /etc/openmpi/openmpi-mca-params.conf; done
}

@test "ranks communicate over a path with a smaller MTU on one side" {
  on_node n1 ip link set eth0 mtu 1400
  sums
  run -0 over_mpi -N2 -n4 --muster -- "$MUSTER_BUILD/bin/muster" bench --device=cpu --max=1M
  on_node n1 ip link set eth0 mtu 1500
}

@test "an IPv6-only interface is not named to Open MPI, which often has no IPv6" {
  for node in n0 n1; do
    # shellcheck disable=SC2016 # the node's shell expands it
    on_node "$node" bash -c 'ip link add six0 type veth peer name six0-end && ip link set six0-end up && ip link set six0 up && ip addr add "fd66::1${0#n}/64" dev six0 nodad
      ip link add vpn0 type veth peer name vpn0-end && ip addr add 10.8.0.1/24 dev vpn0 && ip link set vpn0-end up && ip link set vpn0 up
      echo "fd66::10 n0" >/run/hosts; echo "fd66::11 n1" >>/run/hosts; cat /etc/hosts >>/run/hosts; mount --bind /run/hosts /etc/hosts' "$node"
  done
  # shellcheck disable=SC2016 # the tasks expand it
  run -0 --separate-stderr on_lab srun -N2 --muster bash -c "$interface"'; echo "$SLURM_PROCID gloo=$GLOO_SOCKET_IFNAME"'
  [ "$(value interface)/$(value gloo)" = "unset unset/six0 six0" ]
  # Ranks still find each other over IPv6.
  for node in n0 n1; do on_node "$node" ip addr add "fd67::1${node#n}/64" dev eth0 nodad; done
  for _ in 1 2 3; do
    # shellcheck disable=SC2016 # the tasks expand it
    run -0 on_lab timeout 300 srun -N2 -n4 --overcommit --mpi=none --muster=off env MUSTER_JOIN=address MUSTER_KEY=9b1f04d2c7e85a36f20d8e4b7159ac63 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 \
      MASTER_ADDR=fd67::10 MASTER_PORT=23461 bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec "$@"' - "$MUSTER_BUILD/bin/joining_ranks"
    [[ "$output" == *"joined through address: 4 ranks on 2 hosts"* ]]
  done
}
