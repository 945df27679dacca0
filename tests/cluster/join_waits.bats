#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A join's waits for other things than its ranks: services of a node that are stopped or busy, and a rank
# that was never started.
load setup

setup_file() { lab_up --nodes 2 --gpus 0; }
teardown_file() { lab_down; }

program() { echo "$MUSTER_BUILD/bin/joining_ranks"; }
job_lines() { grep -E '^joining_ranks: ' <<<"$output"; }

one_never_started() {
  together 3
  # shellcheck disable=SC2016 # the inner shell expands it
  lab exec srun -N2 -n4 --overcommit --mpi=none --kill-on-bad-exit=0 env TORCHELASTIC_RUN_ID=7 MUSTER_KEY=9b1f04d2c7e85a36f20d8e4b7159ac63 MASTER_ADDR=n0 \
    MASTER_PORT=23459 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 bash -c '[ "$SLURM_PROCID" != 3 ] || exit 0; RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec '"$(program) briefly"
}

@test "the line distinguishes a rank that was never started from a stuck one" {
  searched one_never_started
  [ "$status" = 75 ]
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" == *"1 of 4 ranks missing after 2 s: rank 3 has no process on n0, n1: it never started, ended, or is on another host" ]]
}

# The server closes some connections. Without the mask of SIGPIPE, half of these jobs end in PMIx_Init.
@test "128 ranks on each of two nodes join through PMIx" {
  needs_pmix
  for _ in 1 2 3; do
    run -0 lab exec timeout 300 srun -N2 -n256 --overcommit --mpi=pmix "$(program)"
    [[ "$output" == *"joined through pmix: 256 ranks on 2 hosts"* ]]
  done
}

@test "when a PMIx server does not answer, its rank reports that at the deadline, and the others name the rank" {
  needs_pmix
  # shellcheck disable=SC2016 # the inner shell expands it
  run lab exec srun -N1 -n1 --mpi=pmix bash -c 'kill -STOP $PPID; '"$(program)"' briefly; status=$?; kill -CONT $PPID; exit $status'
  [ "$status" = 75 ]
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" == *"join: the PMIx server on host n0 did not answer within 2 s: see the log of slurmd or mpirun there" ]]
  together 2
  # shellcheck disable=SC2016
  run lab exec srun -N2 -n2 --mpi=pmix --kill-on-bad-exit=0 bash -c '
    [ "$SLURM_PROCID" = 0 ] || kill -STOP $PPID
    '"$(program)"' briefly
    status=$?
    [ "$SLURM_PROCID" = 0 ] || { sleep 3; kill -CONT $PPID; }
    exit $status'
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" == *"1 of 2 ranks missing after 2 s: rank 1 (host n1) sent no hello"* ]]
}

@test "when all ranks of the first host are missing, one rank of the other reports them" {
  needs_pmix
  together 9
  # shellcheck disable=SC2016 # the inner shell expands it
  run lab exec srun -N2 -n18 --overcommit --mpi=pmix --kill-on-bad-exit=0 bash -c '[ "$SLURM_NODEID" = 1 ] || exec sleep 6; '"$(program) briefly"
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" == "joining_ranks: join: 9 of 18 ranks missing after 2 s: "*"rank 0 (host n0)"* ]]
}

@test "when munged on one node does not answer, a rank of that node reports it" {
  together 2
  # A munged that only the rank on n1 sees: slurmd needs the node's own.
  # shellcheck disable=SC2016 # the inner shell expands it
  run lab exec srun -N2 -n2 --mpi=none --kill-on-bad-exit=0 bash -c '
    [ "$SLURM_NODEID" = 1 ] || exec '"$(program)"' briefly
    mkdir "$0" && head -c 128 /dev/urandom >"$0/key" && chmod 600 "$0/key"
    munged --force --key-file="$0/key" --socket="$0/munge.socket.2" --pid-file="$0/pid" --log-file="$0/log" --seed-file="$0/seed" || exit
    kill -STOP "$(cat "$0/pid")"
    unshare --mount bash -c "mount --bind $0 /run/munge && exec '"$(program)"' briefly"
    status=$?
    kill -KILL "$(cat "$0/pid")"
    exit $status' "$BATS_TEST_TMPDIR/munge"
  [ "$status" != 0 ]
  [ "$(job_lines | wc -l)" = 2 ]
  [[ "$(job_lines)" == *"on host n1 MUNGE cannot authenticate them (munged did not answer within "* ]]
  [[ "$(job_lines)" == *"1 of 2 ranks missing after 2 s: rank 1 (host n1) "* ]]
}
