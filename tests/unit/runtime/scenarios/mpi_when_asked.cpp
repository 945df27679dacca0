// SPDX-License-Identifier: Apache-2.0
// Open MPI is loaded when a host communicator is first asked for, and not before: mpirun -n 2 mpi_when_asked
// [gpu].
// With "gpu", on test doubles of CUDA and NCCL, the world communicator works without it.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "muster/muster.hpp"

using namespace muster;

namespace {

bool has_open_mpi() { return dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr; }

int failures = 0;
void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "mpi_when_asked: %s\n", what);
  ++failures;
}

void run(bool gpu) {
  auto job = Job::join({.device = gpu ? Device::cuda : Device::cpu});
  check(!has_open_mpi(), "join loaded Open MPI");
  job.barrier("first");
  if (gpu) {
    auto world = job.world();
    float value = 1;
    world.all_reduce(std::span(&value, 1));
    world.barrier();
    check(std::string(world.backend()) == "nccl", "the world is not on the GPU");
    check(!has_open_mpi(), "a communicator on GPUs loaded Open MPI");
  } else {
    job.host_world().barrier();
    check(has_open_mpi(), "a host communicator did not load Open MPI");
  }
  job.leave();
}

}  // namespace

int main(int argc, char**) {
  bool const gpu = argc > 1;
  // A GPU of its own for each rank.
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (gpu && rank != nullptr) setenv("FAKE_CUDA_PCI", (std::string("0000:3") + rank + ":00.0").c_str(), 1);
  try {
    run(gpu);
  } catch (const Error& error) {
    if (!error.reported_elsewhere()) std::fprintf(stderr, "mpi_when_asked: %s\n", error.what());
    return error.exit_code();
  }
  return failures > 0 ? 1 : 0;
}
