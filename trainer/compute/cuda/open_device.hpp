// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compute/compute.hpp"

namespace muster::compute::cuda {

/// This process's GPU, ready to compute.
struct OpenedGpu {
  std::unique_ptr<Compute<bfloat16>> compute;
  std::uint64_t free_bytes = 0;  ///< for a model
};

/// False in a build without nvcc.
bool has_kernels() noexcept;
/// Call after Job::join(), which selects the GPU. `images`: for a network on images, which needs cuDNN.
/// @throws Error(ErrorCode::device) with the loader's, CUDA's or cuDNN's reason.
OpenedGpu open_gpu(bool images);

}  // namespace muster::compute::cuda
