// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_library.hpp"

namespace muster::detail {

std::string CudaLibrary::reason(CUresult result) const {
  const char* text = nullptr;
  if (get_error_string(result, &text) == CUDA_SUCCESS && text != nullptr) return text;
  return "CUDA error " + std::to_string(static_cast<int>(result));
}

}  // namespace muster::detail
