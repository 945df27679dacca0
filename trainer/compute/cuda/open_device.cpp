// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/open_device.hpp"

#include "compute/cuda/cuda_compute.hpp"
#include "compute/cuda/kernels/kernel_binary.hpp"

namespace muster::compute::cuda {
namespace {

/// For NCCL, cuDNN's workspace, the kernels' partial sums, and the operands of products that measure peak
/// flops.
constexpr std::uint64_t reserved_bytes = 1u << 30;

}  // namespace

bool has_kernels() noexcept { return kernel_binary() != nullptr; }

OpenedGpu open_gpu(bool images) {
  auto compute = std::make_unique<CudaCompute>(CudaCompute::Options{});
  if (images) compute->images();
  const std::uint64_t left = compute->gpu().free_bytes();
  return {std::move(compute), left > reserved_bytes ? left - reserved_bytes : 0};
}

}  // namespace muster::compute::cuda
