// SPDX-License-Identifier: Apache-2.0
// For builds without CUDA's headers.
#include "compute/cuda/open_device.hpp"
#include "muster/error.hpp"

namespace muster::compute::cuda {

bool has_kernels() noexcept { return false; }

OpenedGpu open_gpu(bool) {
  throw Error(ErrorCode::usage, "this muster-train was built without CUDA: pass --device=cpu");
}

}  // namespace muster::compute::cuda
