// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/open_device.hpp"

#include "compute/cuda/cuda_compute.hpp"
#include "compute/cuda/kernel_binary.hpp"

namespace muster::compute::cuda {
namespace {

/// For NCCL, the partial sums of kernels, and the operands of the products that the peak is measured with.
constexpr std::uint64_t kept_back = 1u << 30;

}  // namespace

bool has_kernels() noexcept { return kernel_binary() != nullptr; }

OpenedGpu open_gpu() {
  // cuBLASLt's first algorithms, not the fastest: a resumed run must have the bits of one that never stopped.
  auto compute = std::make_unique<CudaCompute>(CudaCompute::Options{});
  const std::uint64_t left = compute->gpu().free_bytes();
  return {std::move(compute), left > kept_back ? left - kept_back : 0};
}

}  // namespace muster::compute::cuda
