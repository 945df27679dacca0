// SPDX-License-Identifier: Apache-2.0
#include "optimizer/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster {
namespace {

/// The part of the way from `first` to `last`.
double progress(std::int64_t step, std::int64_t first, std::int64_t last) {
  if (step >= last) return 1;
  return static_cast<double>(std::max<std::int64_t>(step - first, 0)) / static_cast<double>(last - first);
}

}  // namespace

double Schedule::at(std::int64_t step) const noexcept {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  switch (shape) {
    case Shape::constant:
      return peak;
    case Shape::step: {
      const auto passed =
          std::count_if(milestones.begin(), milestones.end(), [=](std::int64_t at) { return at <= step; });
      return peak * std::pow(factor, static_cast<double>(passed));
    }
    case Shape::linear:
      return peak + (lowest - peak) * progress(step, warmup, steps);
    case Shape::stable_decay:
      return peak + (lowest - peak) * progress(step, std::max(warmup, steps - decay_steps), steps);
    case Shape::cosine:
      break;
  }
  if (step >= steps) return lowest;
  return lowest + 0.5 * (1 + std::cos(std::numbers::pi * progress(step, warmup, steps))) * (peak - lowest);
}

}  // namespace muster
