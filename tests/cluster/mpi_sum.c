/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI program: each rank prints a sum over all ranks. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, size, sum, mine;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  mine = 1 << rank;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("%d of %d: %d\n", rank, size, sum);
  MPI_Finalize();
  return 0;
}
