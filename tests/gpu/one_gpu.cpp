// SPDX-License-Identifier: Apache-2.0
#include "one_gpu.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace one_gpu {

void check(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

int count_gpus() {
  int gpus = 0;
  cudaError_t const found = cudaGetDeviceCount(&gpus);
  if (found == cudaSuccess && gpus > 0) return gpus;
  std::printf("skipped: no GPU: %s\n", found == cudaSuccess ? "CUDA shows none" : cudaGetErrorString(found));
  return 0;
}

void share_only_gpu(int gpus) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) rank = std::getenv("RANK");
  if (gpus != 1 || rank == nullptr) return;
  setenv("NCCL_HOSTID", (std::string("muster-test-") + rank).c_str(), 1);
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}) setenv(name, "1", 0);
  for (const char* name : {"NCCL_NVLS_ENABLE", "NCCL_MNNVL_ENABLE"}) setenv(name, "0", 0);
  setenv("NCCL_NET", "Socket", 0);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  setenv("NCCL_MAX_CTAS", "2", 0);
}

std::vector<float> random_floats(std::size_t count) {
  std::vector<float> numbers(count);
  std::uint32_t next = 1;
  for (float& number : numbers) {
    next = next * 1664525u + 1013904223u;  // Numerical Recipes' generator
    number = static_cast<float>(next >> 8) * 0x1p-24f - 0.5f;
  }
  return numbers;
}

void select_gpu(int gpus, int local_rank) { check(cudaSetDevice(gpus == 1 ? 0 : local_rank)); }

}  // namespace one_gpu
