#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# muster doctor and muster bench on a real two-node Slurm, healthy and with things broken on one node.
load setup

setup_file() {
  lab_up --nodes 2 --gpus 0
  allow_mpirun
}
teardown_file() { lab_down; }

muster() { echo "$MUSTER_BUILD/bin/muster"; }
# doctor SRUN-OPTIONS -- DOCTOR-OPTIONS: runs the doctor as four ranks on two nodes.
doctor() {
  local options=()
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  shift
  lab exec srun -N2 -n4 --overcommit --kill-on-bad-exit=0 "${options[@]}" "$(muster)" doctor "$@"
}
# on_second_node VARIABLE=VALUE...: runs the doctor with these variables on n1 only.
on_second_node() {
  # shellcheck disable=SC2016 # the inner shell expands it
  lab exec srun -N2 -n4 --overcommit --kill-on-bad-exit=0 --mpi="$LAB_MPI" \
    bash -c 'if [ "$SLURM_NODEID" = 1 ]; then export "$@"; fi; exec '"$(muster)"' doctor' - "$@"
}
# row VERDICT SUBJECT: the table has such a row.
row() { grep -E "^$1 +$2  " <<<"$output" || { echo "no row '$1 $2' in: $output"; return 1; }; }
# fix TEXT: a row contains it.
fix() { grep -E '^ +-> ' <<<"$output" | grep -qF -- "-> $1" || { echo "no fix '$1' in: $output"; return 1; }; }
# on_fakes VARIABLE=VALUE... -- OPTIONS: runs muster as four ranks on two nodes, each with a GPU, on the
# fake CUDA and NCCL (tests/unit/runtime/fakes), without GPU, driver or NCCL. The fakes compute on host
# memory, so sums depend on the exchanged data, and times mean nothing. ON_RANK_2=NAME=VALUE sets a variable
# for that rank only.
on_fakes() {
  local doubles=$MUSTER_BUILD/tests/unit/runtime variables=() folder
  [ -e "$doubles/libfake_nccl.so" ] || skip "this build has no CUDA"
  while [[ $1 != -- ]]; do variables+=("$1") && shift; done
  shift
  folder=$(mktemp -d "$BATS_TEST_TMPDIR/exchange.XXXXXX")
  # shellcheck disable=SC2016 # the inner shell expands it
  run --separate-stderr lab exec env MUSTER_CUDA_LIBRARY="$doubles/libfake_cuda.so" MUSTER_NCCL_LIBRARY="$doubles/libfake_nccl.so" \
    FAKE_NCCL_FOLDER="$folder" "${variables[@]}" srun -N2 -n4 --overcommit --kill-on-bad-exit=0 --mpi="$LAB_MPI" bash -c '
      export FAKE_CUDA_PCI=${FAKE_CUDA_PCI:-0000:3$SLURM_LOCALID:00.0}
      mine=ON_RANK_$SLURM_PROCID
      [ -z "${!mine:-}" ] || export "${!mine}"
      exec "$@"' - "$(muster)" "$@"
}
# has_failed [TASKS]: rank 0, or one of TASKS, a pattern, has exited with 1. Slurm's PMIx plugin ends the step then, which may kill a slower rank; srun exits with 137 in that case.
has_failed() {
  [ "$status" = 1 ] || { [ "$status" = 137 ] && grep -qE "^srun: error: n[01]: tasks? ${1-0.*}: Exited with exit code 1\$" <<<"$stderr"; }
}
# one_table: exactly one of the job's ranks has printed.
one_table() { [ "$(grep -cE '^[0-9]+ passed, ' <<<"$output")" = 1 ] || { echo "not one table: $output"; return 1; }; }
# Python: listens on ports while a command runs. The node's first task listens; the other tasks find the ports
# in use.
on_taken_ports='
import os, socket, subprocess, sys
ports = [int(port) for port in sys.argv[1].split(",")]
if os.environ["SLURM_LOCALID"] == "0":
    held = [socket.create_server(("", port)) for port in ports]
sys.exit(subprocess.call(sys.argv[2:]))'

@test "on a healthy cluster rank 0 prints one table, exit code 0" {
  needs_pmix
  run -0 --separate-stderr doctor --mpi=pmix --
  row pass "join" | grep -F 'through pmix: 4 ranks on 2 hosts'
  row pass "clocks"
  row pass "variables"
  row pass "versions"
  row pass "socket interface"
  row pass "all-reduce \(host\), across"
  # On a busy machine a node may be slower in any of the compared figures.
  row "(pass|warn)" "slowest node" | grep -E 'none: 2 nodes are alike: .*computing in |n[01]: .* takes [0-9.e+]+ ms, on the middle node '
  row skipped "locked memory"
  row pass "/dev/shm"
  row skipped "GPUs" | grep -F 'no host shows a GPU device'
  [ "$(grep -c '^join\|  join  ' <<<"$output")" = 1 ]
  [[ "$output" == *" 0 failed"* ]]
  [[ "$output" == *"trace of the join on this rank:"*"rank 0: "* ]]
}

@test "the doctor distinguishes fences: a collecting fence waits for the other node, a plain one is tested" {
  needs_pmix
  run -0 --separate-stderr doctor --mpi=pmix --
  row pass "PMIx fence, collecting" | grep -F 'until rank 2 came 300 ms late'
  row "(pass|warn)" "PMIx fence, plain"
  # With at most TreeWidth (16 or 50) nodes Slurm's tree has no edges; its ring has.
  SLURM_PMIX_FENCE=ring run -0 --separate-stderr doctor --mpi=pmix --
  row pass "PMIx fence, plain" | grep -F 'held all ranks back'
}

@test "a plain fence that lets ranks go early, and a port in use, are rows, each with a fix" {
  needs_pmix
  # On every node a listener uses the first of the step's ports.
  run -0 --separate-stderr lab exec srun -N2 -n4 --overcommit --kill-on-bad-exit=0 --mpi=pmix \
    env SLURM_STEP_RESV_PORTS=12080-12081 python3 -c "$on_taken_ports" 12080 "$(muster)" doctor
  row warn "ports" | grep -F '1 of them taken on n0: 12080'
  fix 'set MpiParams=ports=… in slurm.conf and start with --resv-ports=2, or with --mpi=pmix'
  # Ranks go early only with a Slurm whose tree of few nodes has no edges.
  row "(pass|warn)" "PMIx fence, plain"
  ! grep -qE '^warn +PMIx fence, plain' <<<"$output" || fix 'srun --muster, export SLURM_PMIX_FENCE=ring, or set TreeWidth=2 in slurm.conf'
}

@test "when all ports of the step are in use, that is a failure with a fix" {
  needs_pmix
  run --separate-stderr lab exec srun -N1 -n2 --overcommit --kill-on-bad-exit=0 --mpi=pmix \
    env SLURM_STEP_RESV_PORTS=12080-12081 python3 -c "$on_taken_ports" 12080,12081 "$(muster)" doctor
  [ "$status" = 1 ]
  row fail "ports" | grep -F '2 of them taken on n0: 12080-12081'
  fix 'set MpiParams=ports=… in slurm.conf and start with --resv-ports=2, or with --mpi=pmix'
}

@test "without PMIx the doctor works, and lists what it could not test" {
  run -0 --separate-stderr doctor --mpi=none --
  row pass "join" | grep -F 'through slurm: 4 ranks on 2 hosts'
  row pass "ports"
  row skipped "PMIx fences"
  row pass "all-reduce \(host\)"
}

@test "a variable that differs on one node, and its wrong clock, are named with their ranks" {
  run -0 on_second_node NCCL_IB_TIMEOUT=10 SHIFTED_CLOCK_SECONDS=7 LD_PRELOAD="$MUSTER_BUILD/lib/shifted_clock.so"
  # The difference is measured once, and a busy machine may delay the answer.
  row warn "clocks" | grep -E "the clock of the host of rank 2 \\(host n1\\) is (6\\.[5-9]|7\\.[0-5]) s ahead of the other host's"
  fix 'start chrony or ntpd there'
  row warn "variables" | grep -F "NCCL_IB_TIMEOUT is '10' on ranks 2-3 (host n1), but unset on ranks 0-1 (host n0)"
}

@test "settings that make NCCL hang or fail are failures: another protocol, an interface that cannot reach the other node" {
  run on_second_node NCCL_PROTO=LL NCCL_SOCKET_IFNAME=lo
  [ "$status" = 1 ]
  row fail "variables" | grep -F "NCCL_PROTO is 'LL' on ranks 2-3 (host n1)"
  [[ "$output" == *"-> give every rank the same NCCL_PROTO"* ]]
  row fail "socket interface" | grep -F 'loopback interface on the host of rank 2 (host n1)'
}

@test "a setting in only one node's nccl.conf is a differing variable, unless the environment has it too" {
  on_node n1 bash -c 'mkdir /run/etc && cp -a /etc/. /run/etc && echo NCCL_PROTO=LL >/run/etc/nccl.conf && mount --rbind /run/etc /etc'
  run doctor --mpi="$LAB_MPI" --
  alike=$(NCCL_PROTO=Simple doctor --mpi="$LAB_MPI" --) || true
  on_node n1 umount -l /etc
  [ "$status" = 1 ]
  row fail "variables" | grep -F "NCCL_PROTO is 'LL' on ranks 2-3 (host n1), but unset on ranks 0-1 (host n0)"
  [[ "$output" == *"-> give every rank the same NCCL_PROTO, in its environment or in nccl.conf"* ]]
  output=$alike
  row pass "variables" | grep -F 'NCCL_PROTO=Simple'
}

@test "of two nodes with one rank each, the slow one is named" {
  # Stopped for nine tenths of its time, like a node whose CPUs others use. The stopping process comes before
  # all others, so that a busy machine does not let the rank run longer.
  local stopping='import os, signal, sys, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
try:
  while True:
    for number, seconds in ((signal.SIGSTOP, 0.02), (signal.SIGCONT, 0.002)):
      os.kill(int(sys.argv[1]), number)
      time.sleep(seconds)
except ProcessLookupError:
  pass'
  # shellcheck disable=SC2016
  run -0 --separate-stderr lab exec env STOPPING="$stopping" srun -N2 -n2 --mpi="$LAB_MPI" bash -c '
    if [ "$SLURM_NODEID" = 1 ]; then python3 -c "$STOPPING" $$ & fi
    exec '"$(muster)"' doctor'
  row warn "slowest node" | grep -E 'n1: .* takes [0-9.e+]+ ms, on the middle node '
}

@test "when a rank never joins, the table has that one line, exit code 1" {
  # shellcheck disable=SC2016
  run lab exec srun -N2 -n4 --overcommit --kill-on-bad-exit=0 --mpi="$LAB_MPI" \
    bash -c 'if [ "$SLURM_PROCID" = 3 ]; then exit 0; fi; exec '"$(muster)"' doctor --deadline 3'
  [ "$status" != 0 ]
  row fail "job" | grep -F 'rank 3'
}

@test "on the fake CUDA and NCCL a healthy job with GPUs has passing rows about them, with figures" {
  on_fakes -- doctor --device gpu
  [ "$status" = 0 ]
  one_table
  row pass "GPUs" | grep -F '4 ranks, each on a GPU of its own that it can use'
  row pass "versions" | grep -E 'NCCL 2\.[0-9]+\.[0-9]+, .*; the other ranks have the same'
  for part in "" ", per node" ", across"; do
    row pass "all-reduce \(NCCL\)$part" | grep -E '1 MiB in [0-9.]+ ms, bus bandwidth [0-9.]+ GB/s, sums right'
  done
  # If others use the CPUs, a node may stand out; the row then names what is slow.
  row "(pass|warn)" "slowest node" | grep -E '^pass .* copying to the GPU and back in [0-9.]+ to [0-9.]+ ms|^warn .* n[01]: .* takes '
  [[ "$output" == *" 0 failed"* ]]
}

@test "on the fake CUDA, NCCL and NVML the doctor finds one clique over two hosts, and settings that keep NCCL from its NVLink" {
  local nvml=MUSTER_NVML_LIBRARY=$MUSTER_BUILD/tests/unit/runtime/libfake_nvml.so
  on_fakes "$nvml" "FAKE_NVML_FABRIC=3 0 0 0 170" -- doctor --device gpu
  row pass "NVLink fabric" | grep -F 'up and healthy: 4 GPUs within their hosts'
  on_fakes "$nvml" "FAKE_NVML_FABRIC=3 0 7 171 170" NCCL_CUMEM_ENABLE=0 -- doctor --device gpu
  [ "$status" = 0 ]
  row warn "NVLink fabric" | grep -E 'NCCL_CUMEM_ENABLE=0 on ranks 0-3 \(hosts n0, n1\) keeps NCCL from the NVLink'
  row warn "NVLink fabric" | grep -E 'ranks 0-3 \(hosts n0, n1\) may open no IMEX channel'
  fix "unset NCCL_CUMEM_ENABLE"
  on_fakes "$nvml" "FAKE_NVML_FABRIC=3 0 7 171 170" FAKE_NVML=hang -- doctor --device gpu
  row skip "NVLink fabric" | grep -F 'reports nothing about it'
}

@test "on the fake CUDA and NCCL a GPU shared by two ranks and a different NCCL are failures, and NCCL is not tested" {
  on_fakes FAKE_CUDA_PCI=0000:3b:00.0 ON_RANK_2=FAKE_NCCL_VERSION=22703 -- doctor --device gpu
  [ "$status" = 1 ]
  one_table
  row fail "GPUs" | grep -F 'ranks 0-1 (host n0) have GPU 0000:3b:00.0 together, which NCCL refuses'
  row fail "GPUs" | grep -F 'ranks 2-3 (host n1) have GPU 0000:3b:00.0 together'
  fix 'start one task for each GPU (--gpus-per-task=1)'
  row fail "NCCL version" | grep -E 'NCCL is 2\.27\.3 on rank 2 \(host n1\), but 2\.[0-9.]+ on ranks 0-1,3 \(hosts n0, n1\)'
  fix 'load the same libnccl.so.2 everywhere, or name it in MUSTER_NCCL_LIBRARY'
  row skipped "all-reduce \(NCCL\)" | grep -F 'failed check above (NCCL version)'
  [[ "$output" != *"NCCL initialisation"* ]]
  row "(pass|warn)" "slowest node" # the other checks still run
}

@test "on the fake CUDA and NCCL a failing NCCL is a row below the earlier findings, from one rank" {
  on_fakes FAKE_NCCL=fail_init -- doctor --device gpu
  has_failed '.*'
  one_table
  row fail "job" | grep -F "NCCL initialisation (operation 1 on communicator 'world') failed on rank "
  row fail "job" | grep -F 'unhandled system error (socketStartConnect: no route to host)'
  fix "see nvidia-smi there and NCCL's output with NCCL_DEBUG=WARN"
  for found in "join" "clocks" "versions" "GPUs" "socket interface"; do row pass "$found"; done
  row "(pass|warn)" "control plane" # a busy machine may be slow
}

@test "on the fake CUDA and NCCL a hanging NCCL is a row at the deadline, with the waiting ranks and their operation" {
  on_fakes FAKE_NCCL=hang_init -- doctor --device gpu --deadline 8
  has_failed
  one_table
  row fail "job" | grep -E "NCCL initialisation \\(operation 1 on communicator 'world'\\) did not complete within 8 s on rank [0-3] .*every rank entered it"
  fix 'see what the ranks named here do'
  row pass "GPUs"
}

@test "on the fake CUDA and NCCL the one rank that is stuck in NCCL's initialisation is named, not those that wait for it" {
  on_fakes ON_RANK_2=FAKE_NCCL=hang_init -- doctor --device gpu --deadline 8
  has_failed
  one_table
  # The first query comes from that rank, or from one that has left it and waits.
  row fail "job" | grep -E "NCCL initialisation .* did not complete within 8 s on rank 2 \\(host n1, GPU 0000:30:00.0\\).*went on|not entered by rank 2 \\(host n1, GPU 0000:30:00.0\\), which is still in NCCL initialisation"
}

@test "on the fake CUDA and NCCL a different NCCL on one rank ends a job without the doctor, with the reason" {
  on_fakes ON_RANK_2=FAKE_NCCL_VERSION=22703 -- bench --device gpu --max 64K
  [ "$status" = 78 ]
  [ "$(grep -c '^muster: ' <<<"$stderr")" = 1 ]
  [[ "$stderr" == *"muster: preflight: NCCL is 2.27.3 on rank 2 (host n1), but "*": load the same libnccl.so.2 everywhere"*"(MUSTER_PREFLIGHT=warn on rank 0 goes on"* ]]
}

@test "on the fake CUDA and NCCL one rank's finding is a row with its number, in one table with all of rank 0's rows" {
  on_fakes ON_RANK_2=FAKE_CUDA=no_memory -- doctor --device gpu --format json
  has_failed '.*'
  python3 -c '
import json, sys
report = json.load(sys.stdin)
rows = {check["subject"]: check for check in report["checks"]}
assert report["failed"], report
assert rows["job"]["verdict"] == "fail" and rows["job"]["found"].startswith("rank 2 (host n1, GPU 0000:30:00.0): cannot allocate 1048576 bytes of GPU memory"), report
assert {"ports", "clocks", "GPUs"} <= set(rows), report' <<<"$output"
}

@test "on the fake CUDA and NCCL, when a rank cannot use its GPU, the other checks run on the CPU" {
  on_fakes ON_RANK_2=FAKE_CUDA=no_device -- doctor --device gpu
  [ "$status" = 1 ]
  one_table
  row fail "join" | grep -F 'rank 2 (host n1): a GPU was asked for but cannot be used: CUDA says: no CUDA-capable device is detected'
  row skipped "GPUs" | grep -F '3 of 4 ranks have a GPU that they can use'
  row pass "all-reduce \(host\)"
}

@test "on the fake CUDA and NCCL a lost rank is a row below rank 0's, also if it is rank 0" {
  for rank in 0 2; do
    on_fakes "ON_RANK_$rank=FAKE_NCCL=die_in_reduction" -- doctor --device gpu
    [ "$status" != 0 ]
    one_table
    row fail "job" | grep -F "rank $rank (host n$((rank / 2)), GPU 0000:30:00.0), pid "
    for found in "ports" "clocks" "GPUs"; do row pass "$found"; done
  done
}

@test "on the fake CUDA and NCCL the doctor and the bench fail on wrong sums" {
  on_fakes FAKE_NCCL=wrong_sums -- doctor --device gpu
  [ "$status" = 1 ]
  row fail "all-reduce \(NCCL\), across" | grep -E '[1-9][0-9]* of 524288 elements on 2 ranks are wrong'
  on_fakes FAKE_NCCL=wrong_sums -- bench --device gpu --min 64K --max 64K --check
  [ "$status" = 1 ]
  [[ "$output" == *"# wrong elements: "[1-9]* ]]
}

@test "on the fake CUDA and NCCL muster bench works on GPU memory" {
  for operation in all_reduce all_gather reduce_scatter; do
    on_fakes -- bench --device gpu --op "$operation" --max 64K --factor 64 --check
    [ "$status" = 0 ]
    [[ "$output" == *"$operation: 4 ranks on 2 hosts (joined through pmix), nccl 2."*", GPU memory"* ]]
    [[ "$output" == *"# wrong elements: 0"* ]]
  done
}

@test "the doctor's JSON has the same checks" {
  needs_pmix
  run -0 --separate-stderr doctor --mpi=pmix -- --format json
  python3 -c '
import json, sys
report = json.load(sys.stdin)
subjects = [check["subject"] for check in report["checks"]]
assert report["schema"] == 1 and not report["failed"], report
assert {"join", "clocks", "PMIx fence, collecting", "slowest node"} <= set(subjects), subjects
assert report["trace"], report' <<<"$output"
}

@test "muster bench over two nodes: table, right data and a picture" {
  run -0 --separate-stderr over_mpi -N2 -n4 -- "$(muster)" bench --max 64K --factor 8 --check --svg "$BATS_TEST_TMPDIR/bench.svg"
  [[ "$output" == *"all_reduce: 4 ranks on 2 hosts (joined through pmix), open-mpi, host memory"* ]]
  [[ "$output" == *"# wrong elements: 0"* ]]
  python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$BATS_TEST_TMPDIR/bench.svg"
}

@test "a join's warnings are one line from rank 0, and a healthy join prints nothing" {
  program=$MUSTER_BUILD/bin/joining_ranks
  run -0 --separate-stderr lab exec srun -N2 -n4 --overcommit --mpi="$LAB_MPI" "$program"
  [ -z "$stderr" ]
  # shellcheck disable=SC2016
  run -0 --separate-stderr lab exec srun -N2 -n4 --overcommit --mpi="$LAB_MPI" \
    bash -c 'if [ "$SLURM_NODEID" = 1 ]; then export UCX_TLS=tcp; fi; exec '"$program"
  [ "$(grep -c '^muster: warning: ' <<<"$stderr")" = 1 ]
  [[ "$stderr" == *"UCX_TLS is 'tcp' on ranks 2-3 (host n1), but unset on ranks 0-1 (host n0): give every rank the same UCX_TLS"* ]]
}
