// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernel_checks.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "muster/error.hpp"

namespace muster::detail {

bool wants_kernel_checks() {
  const char* const value = std::getenv("MUSTER_CUDA_CHECK");
  std::string_view const wanted = value == nullptr ? "0" : value;
  if (wanted != "0" && wanted != "1")
    throw Error(ErrorCode::usage, fmt::format("MUSTER_CUDA_CHECK is 0 or 1, not '{}'", wanted));
  return wanted == "1";
}

}  // namespace muster::detail
