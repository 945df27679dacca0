// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "muster/error.hpp"

namespace muster::compute::cuda {

inline std::size_t elements(int rows, int width) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
}

/// @throws Error(ErrorCode::usage) unless the kernels take this geometry. `what`: why they do not.
inline void require(bool fine, const std::string& what) {
  if (!fine) throw Error(ErrorCode::usage, what + ": pass --device=cpu");
}

}  // namespace muster::compute::cuda
