// SPDX-License-Identifier: Apache-2.0
// Interposes Open MPI's functions. FAILING_IN ("init", "split" or "finalize") names the one in which this
// process stops, and FAILING_HOW how: "hangs" or "killed". With FAILING_IN "threads" MPI_Query_thread()
// reports MPI_THREAD_SINGLE.
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace {

std::string get_env(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

void stop_in(const char* place) {
  if (get_env("FAILING_IN") != place) return;
  if (get_env("FAILING_HOW") == "killed") kill(getpid(), SIGKILL);
  sleep(60);
}

}  // namespace

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  stop_in("init");
  return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Comm_split(MPI_Comm whole, int color, int key, MPI_Comm* part) {
  stop_in("split");
  return PMPI_Comm_split(whole, color, key, part);
}

int MPI_Finalize() {
  stop_in("finalize");
  return PMPI_Finalize();
}

int MPI_Query_thread(int* provided) {
  int const code = PMPI_Query_thread(provided);
  if (get_env("FAILING_IN") == "threads") *provided = MPI_THREAD_SINGLE;
  return code;
}

}  // extern "C"
