// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernel_parameters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace muster::detail {

KernelParameters::KernelParameters(const CudaLibrary& cuda, CUfunction kernel) {
  if (cuda.function_get_param_info == nullptr) return;
  bytes_.emplace();
  std::size_t offset = 0;
  std::size_t bytes = 0;
  while (cuda.function_get_param_info(kernel, bytes_->size(), &offset, &bytes) == CUDA_SUCCESS)
    bytes_->push_back(bytes);
}

std::string KernelParameters::difference(std::span<const std::size_t> argument_bytes) const {
  if (!bytes_ || std::ranges::equal(*bytes_, argument_bytes)) return "";
  return fmt::format(
      "its {} parameters have {} bytes, and the {} arguments of its launch {}: its code is from another "
      "version of Muster; build all of it again",
      bytes_->size(), fmt::join(*bytes_, ", "), argument_bytes.size(), fmt::join(argument_bytes, ", "));
}

}  // namespace muster::detail
