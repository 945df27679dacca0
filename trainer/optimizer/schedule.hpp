// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace muster {

/// Learning rate over steps: rises linearly to `peak` over `warmup` steps (step 0 gets peak / warmup), then
/// falls along half a cosine to `lowest` at step `steps` (Loshchilov and Hutter, arXiv 1608.03983, without
/// restarts).
struct Schedule {
  double peak = 0, lowest = 0;
  std::int64_t warmup = 0, steps = 1;

  double at(std::int64_t step) const noexcept;
};

}  // namespace muster
