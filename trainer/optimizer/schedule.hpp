// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace muster {

/// Learning rate over steps: rises linearly to `peak` over `warmup` steps (step 0 gets peak / warmup), then
/// follows a shape. Steps count from 0.
struct Schedule {
  enum class Shape {
    cosine,        ///< half a cosine to `lowest` at step `steps` (Loshchilov and Hutter, arXiv 1608.03983)
    linear,        ///< a line to `lowest` at step `steps`
    constant,      ///< `peak`
    step,          ///< `peak`, times `factor` from each milestone on (torch's MultiStepLR)
    stable_decay,  ///< `peak`, then a line over the last `decay_steps` (arXiv 2404.06395, section 4)
  };
  double peak = 0, lowest = 0;
  std::int64_t warmup = 0, steps = 1;
  Shape shape = Shape::cosine;
  std::vector<std::int64_t> milestones{};
  double factor = 0.1;
  std::int64_t decay_steps = 0;

  double at(std::int64_t step) const noexcept;
};

}  // namespace muster
