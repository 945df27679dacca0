// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/driver_library.hpp"

#include <fmt/format.h>

#include "muster/error.hpp"

namespace muster::compute::cuda {

void DriverLibrary::require(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return;
  throw Error(ErrorCode::device, fmt::format("the GPU failed: {}: CUDA says: {}", what, reason(result)));
}

}  // namespace muster::compute::cuda
