// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cublas_library.hpp"

#include <fmt/format.h>

#include "muster/error.hpp"

namespace muster::compute::cuda {

void CublasLibrary::require(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::device, fmt::format("cuBLASLt failed: {}: status {} of cublasStatus_t", what,
                                             static_cast<int>(status)));
}

}  // namespace muster::compute::cuda
