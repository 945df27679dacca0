#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# libmuster on a real Slurm: collectives across nodes, and messages about a missing or lost rank.
load setup

setup_file() {
  lab_up --nodes 4 --gpus 2 --plugin "$(plugin)"
  allow_mpirun
}
teardown_file() { lab_down; }

# ranks_on NODES N PROGRAM...: runs N ranks on the first NODES nodes. A rank that runs 20 s longer than
# another is ended.
ranks_on() { lab exec srun -N"$1" -w "n[0-$(($1 - 1))]" -n"$2" --mpi="$LAB_MPI" --kill-on-bad-exit=0 --wait=20 "${@:3}"; }
# ranks N PROGRAM...: N ranks on two nodes.
ranks() { ranks_on 2 "$@"; }
# ranks_over_mpi NODES N PROGRAM...: the same, started so that Open MPI works.
ranks_over_mpi() { over_mpi -N"$1" -w "n[0-$(($1 - 1))]" -n"$2" -- "${@:3}"; }
program() { echo "$MUSTER_BUILD/bin/$1"; }
# The runtime's own lines.
said() { grep -E '^failing_ranks: ' <<<"$output"; }

@test "every collective, type and reduction on four ranks over two nodes" {
  run ranks_over_mpi 2 4 "$(program test_communicator)"
  [ "$status" = 0 ]
  [[ "$output" == *"All tests passed"* ]]
}

@test "the reducer in every mode, the broadcast of state and averages on three ranks over two nodes" {
  run ranks_over_mpi 2 3 "$(program test_reducer)"
  [ "$status" = 0 ]
  [[ "$output" == *"All tests passed"* ]]
}

# Uneven hosts, and one rank on each.
@test "all-reduces over two nodes with several ranks, with two and one, and with one each use shared memory and leaders" {
  local n
  for n in 4 3 2; do
    MUSTER_LOG=debug run ranks_over_mpi 2 $n "$(program test_communicator)" '*reduc*,16-bit*,two threads*,split*'
    [ "$status" = 0 ]
    [[ "$output" == *"'host', $n ranks on 2 hosts, reduces in shared memory"* ]]
  done
  MUSTER_SHARED_MEMORY=off MUSTER_LOG=debug run ranks_over_mpi 2 3 "$(program test_communicator)" '*reduc*'
  [ "$status" = 0 ]
  [[ "$output" == *"'host', 3 ranks on 2 hosts, reduces by messages alone"* ]]
}

@test "all-reduces work over three and four nodes with one rank each, two each, or both" {
  local shape
  for shape in '3 3' '3 6' '4 5'; do
    # shellcheck disable=SC2086
    MUSTER_LOG=debug run ranks_over_mpi $shape "$(program test_communicator)" '*reference - *float*,a long*,16-bit*'
    [ "$status" = 0 ]
    [[ "$output" == *"'host', ${shape#* } ranks on ${shape% *} hosts, reduces in shared memory"* ]]
  done
}

@test "a rank that never joins is named, with its host, in one line for the job" {
  run ranks 4 "$(program failing_ranks)" absent
  [ "$status" != 0 ]
  [ "$(said | wc -l)" = 1 ]
  [[ "$(said)" == *"1 of 4 ranks missing"*"rank 3 (host n1)"* ]]
}

@test "a rank that is killed is named in one line for the job" {
  run ranks 4 "$(program failing_ranks)" killed
  [ "$status" != 0 ]
  [ "$(said | wc -l)" = 1 ]
  [[ "$(said)" =~ "rank 3 (host n1), pid "[0-9]+", "$(killed_by_9)", while running" ]]
}

@test "a rank that does not enter a collective is named by the waiting ranks, in one line for the job" {
  run ranks 4 "$(program failing_ranks)" elsewhere
  [ "$status" != 0 ]
  [ "$(said | wc -l)" = 1 ]
  # Without PMIx the control plane is used, and the text differs.
  [[ "$(said)" == *all_reduce*"not entered by rank 3 "* || "$(said)" == *"on communicator 'host': 1 of 4 ranks missing after 5 s: rank 3 (host n1)"* ]]
}

@test "when Open MPI cannot start, the job prints one line" {
  needs_pmix
  [[ $(mpirun --version) != *" 4."* ]] || skip "Open MPI 4 ends the process inside MPI_Init"
  run lab exec env OMPI_MCA_btl=nosuch srun -N2 -w 'n[0-1]' -n4 --mpi=pmix --kill-on-bad-exit=0 "$(program failing_ranks)" killed
  [ "$status" != 0 ]
  [ "$(said | wc -l)" = 1 ]
  [[ "$(said)" == *"MPI_Init failed with code "*" on rank "* ]]
}

# two_on_one_gpu VARIABLE=VALUE...: runs a job of two ranks on one host and one GPU, on the fake CUDA and
# NCCL.
two_on_one_gpu() {
  local doubles=$MUSTER_BUILD/tests/unit/runtime
  [ -e "$doubles/libfake_nccl.so" ] || skip "this build has no CUDA"
  run lab exec env MUSTER_CUDA_LIBRARY="$doubles/libfake_cuda.so" MUSTER_NCCL_LIBRARY="$doubles/libfake_nccl.so" FAKE_CUDA_PCI=0000:3b:00.0 "$@" \
    srun -N1 -n2 --mpi="$LAB_MPI" --kill-on-bad-exit=0 "$(program mpi_when_asked)" gpu
}
shared_gpu='ranks 0-1 (host n0) have GPU 0000:3b:00.0 together, which NCCL refuses: start one task for each GPU (--gpus-per-task=1)'

@test "two ranks on one GPU end the job before NCCL starts, with one line and exit code 78" {
  two_on_one_gpu
  [ "$status" = 78 ]
  [ "$(grep -cE '^(mpi_when_asked|muster): ' <<<"$output")" = 1 ]
  [[ "$output" == *"mpi_when_asked: preflight: $shared_gpu"*"(MUSTER_PREFLIGHT=warn on rank 0 goes on in spite of it)"* ]]
}

@test "with MUSTER_PREFLIGHT=warn such a job goes on to the end, with a warning" {
  two_on_one_gpu MUSTER_PREFLIGHT=warn
  [ "$status" = 0 ]
  [ "$(grep -cF "muster: warning: $shared_gpu" <<<"$output")" = 1 ]
  [[ "$output" != *"mpi_when_asked: "* ]]
}

@test "mpirun inside a batch job joins too" {
  run lab exec salloc --quiet -N1 -n2 mpirun --allow-run-as-root --oversubscribe -n 2 "$(program failing_ranks)" forgets
  [ "$status" = 0 ]
}

@test "a single task without PMIx runs alone" {
  run lab exec srun -n1 --mpi=none "$(program failing_ranks)" forgets
  [ "$status" = 0 ]
}

@test "ranks on two hosts with clocks a thousand seconds apart write one timeline, and metrics" {
  local ranks=$BATS_TEST_TMPDIR/ranks observed=$MUSTER_BUILD/bin/observed_ranks check=$REPOSITORY/tests/unit/runtime/scenarios/observed_ranks.py
  printf '#!/bin/sh\n[ "$SLURMD_NODENAME" != n1 ] || exec unshare --time --monotonic 1000 %s "$@"\nexec %s "$@"\n' "$observed" "$observed" >"$ranks"
  chmod +x "$ranks"
  for what in steps metrics; do
    TMPDIR=$BATS_TEST_TMPDIR AHEAD='n1 1000' run -0 python3 "$check" "$ranks" "$what" "$LAB_COMMAND" exec srun -N2 -w 'n[0-1]' --mpi="$LAB_MPI" --kill-on-bad-exit=0 -n 4
  done
}
