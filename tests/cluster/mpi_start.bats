#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Open MPI's own start under srun --mpi=pmix: what Muster sets for programs that call MPI_Init themselves.
load setup

setup_file() {
  lab_up --nodes 2 --gpus 0 --plugin "$(plugin)"
  cat >"$BATS_FILE_TMPDIR/sum.c" <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size, sum;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int mine = 1 << rank;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("%d of %d: %d\n", rank, size, sum);
  MPI_Finalize();
}
END
  mpicc -o "$BATS_FILE_TMPDIR/sum" "$BATS_FILE_TMPDIR/sum.c"
  # shellcheck disable=SC2046 # flags
  cc -shared -fPIC -pthread $(pkg-config --cflags pmix) -o "$BATS_FILE_TMPDIR/late_fence.so" "$REPOSITORY/tests/cluster/late_fence.c" -ldl
  export OMPI_MCA_mpi_yield_when_idle=1
}
teardown_file() { lab_down; }

# sums OPTIONS…: four ranks on two nodes add up what they have.
sums() {
  run -0 --separate-stderr on_lab srun -N2 -n4 --overcommit --mpi=pmix "$@" "$BATS_FILE_TMPDIR/sum"
  [ "$(sort <<<"$output")" = $'0 of 4: 15\n1 of 4: 15\n2 of 4: 15\n3 of 4: 15' ]
}

@test "MPI_Init ends on all nodes before the first message: a node that hears late of the exchange loses no rank" {
  for node in n0 n1; do
    sums --muster env LD_PRELOAD="$BATS_FILE_TMPDIR/late_fence.so" LATE_NODE=$node
  done
}

@test "steps of several nodes get a PMIx fence that is a barrier; the user's own choice stays, and so does what is switched off" {
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

@test "a step inside a step has the fence of its own" {
  # shellcheck disable=SC2016 # the tasks expand it
  run -0 --separate-stderr on_lab salloc --quiet -N2 srun -N1 -n1 --muster \
    srun --overlap -N2 -n2 --muster bash -c 'echo "$SLURM_PROCID fence=$SLURM_PMIX_FENCE"; echo "$SLURM_PROCID set=$(grep -o SLURM_PMIX_FENCE <<<"$MUSTER_SET")"'
  [ "$(value fence)/$(value set)" = "ring ring/SLURM_PMIX_FENCE SLURM_PMIX_FENCE" ]
}
