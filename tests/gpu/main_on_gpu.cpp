// SPDX-License-Identifier: Apache-2.0
// Skipped (exit code 77) without a GPU.
#include <cstdio>

#include "compute/cuda/cuda_compute.hpp"
#include "muster/error.hpp"
#include "run_tests.hpp"

int main(int argc, char** argv) {
  try {
    muster::compute::cuda::CudaCompute compute({});
    std::printf("on %s\n", compute.describe().c_str());
  } catch (const muster::Error& error) {
    std::printf("skipped: no GPU: %s\n", error.what());
    return 77;
  }
  return run_tests(argc, argv);
}
