/* SPDX-License-Identifier: Apache-2.0 */
/* Medians of MPI_Allreduce in place of float32 at 4 B to 4 MiB, as bench_host_collectives measures them, but
 * of another MPI. tests/bench/mpich compiles and starts it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define SAMPLES 101
#define MOST_BYTES (4u << 20)

static int compare(const void* a, const void* b) {
  double const x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  int rank;
  size_t bytes;
  float* memory = calloc(MOST_BYTES, 1);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (bytes = 4; bytes <= MOST_BYTES; bytes *= 4) {
    int const calls = bytes <= 65536 ? 100 : 5;
    double samples[SAMPLES];
    int i, call;
    for (i = 0; i < SAMPLES; ++i) {
      double us;
      MPI_Barrier(MPI_COMM_WORLD);
      us = MPI_Wtime();
      for (call = 0; call < calls; ++call)
        MPI_Allreduce(MPI_IN_PLACE, memory, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      us = (MPI_Wtime() - us) * 1e6 / calls;
      MPI_Allreduce(&us, &samples[i], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    qsort(samples, SAMPLES, sizeof(double), compare);
    if (rank == 0) printf("%zu %.2f\n", bytes, samples[SAMPLES / 2]);
  }
  MPI_Finalize();
  free(memory);
  return 0;
}
