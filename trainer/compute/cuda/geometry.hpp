// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "compute/cuda/kernels/kernel_names.hpp"
#include "compute/cuda/kernels/launch_sizes.hpp"
#include "muster/error.hpp"

namespace muster::compute::cuda {

inline std::size_t elements(int rows, int width) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
}

/// @throws Error(ErrorCode::usage) unless the kernels take this geometry. `what`: why they do not.
inline void require(bool fine, const std::string& what) {
  if (!fine) throw Error(ErrorCode::usage, what + ": pass --device=cpu");
}

/// The kernel for heads of this width. `narrowest`: the same one's for the narrowest heads.
/// @throws Error(ErrorCode::usage) if there is none.
inline Kernel kernel_for_heads(Kernel narrowest, int head_width) {
  require(sizes::is_head_width(head_width), fmt::format("on a GPU attention heads are {} wide, and not {}",
                                                        sizes::head_widths_text, head_width));
  const auto place = std::find(sizes::head_widths.begin(), sizes::head_widths.end(), head_width);
  return static_cast<Kernel>(static_cast<std::size_t>(narrowest) +
                             static_cast<std::size_t>(place - sizes::head_widths.begin()));
}

}  // namespace muster::compute::cuda
