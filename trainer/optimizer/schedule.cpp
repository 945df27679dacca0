// SPDX-License-Identifier: Apache-2.0
#include "optimizer/schedule.hpp"

#include <cmath>
#include <numbers>

namespace muster {

double Schedule::at(std::int64_t step) const noexcept {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (step >= steps) return lowest;
  const double progress = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
  return lowest + 0.5 * (1 + std::cos(std::numbers::pi * progress)) * (peak - lowest);
}

}  // namespace muster
