// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cudnn_library.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "muster/error.hpp"

namespace muster::compute::cuda {

detail::SharedObject CudnnLibrary::open() {
  constexpr const char* variable = "MUSTER_CUDNN_LIBRARY";
  const std::string advice =
      "the trainer needs cuDNN 9 or 8 for networks on images with --device=cuda: load its module, name the "
      "file in MUSTER_CUDNN_LIBRARY, or pass --device=cpu";
  try {
    return {variable, "libcudnn.so.9", advice};
  } catch (const Error& error) {
    if (std::getenv(variable) != nullptr) throw;
    try {
      return {variable, "libcudnn.so.8", advice};
    } catch (const Error&) {
      throw error;
    }
  }
}

// 91002 is 9.10.2, and 8907 is 8.9.7 (NVIDIA, cudnn_version.h).
std::string CudnnLibrary::version() const {
  const std::size_t number = get_version(), major = number >= 90000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", number / major, number % major / 100, number % 100);
}

void CudnnLibrary::require(CudnnStatus status, const std::string& what) const {
  if (status == 0) return;
  throw Error(ErrorCode::device, fmt::format("cuDNN failed: {}: {}", what, get_error_string(status)));
}

}  // namespace muster::compute::cuda
