// SPDX-License-Identifier: Apache-2.0
// For tests/bench/join: MPI_Init and the first all-reduce.
#include <mpi.h>

#include "stopwatch.hpp"

int main(int argc, char** argv) {
  Stopwatch const stopwatch;
  MPI_Init(&argc, &argv);
  float mine = 1;
  float sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  stopwatch.print();
  MPI_Finalize();
  return 0;
}
