// SPDX-License-Identifier: Apache-2.0
#include "strategies/local_sgd/snapshot.hpp"

#include <algorithm>
#include <cstddef>

namespace muster {

Snapshot::Snapshot(std::size_t size, const CheckpointParts& parts)
    : parameters_(size),
      moment1_(parts.moments > 0 ? size : 0),
      moment2_(parts.moments > 1 ? size : 0),
      outer_momentum_(parts.outer_momentum ? size : 0) {}

TrainingTensors Snapshot::tensors() noexcept {
  return {parameters_.span(), moment1_.span(), moment2_.span(), outer_momentum_.span()};
}

std::int64_t Snapshot::copy_to(const TrainingTensors& whole, std::int64_t step) {
  const auto copy = [](std::span<const float> from, std::span<float> to) {
    std::copy(from.begin(), from.end(), to.begin());
  };
  copy(parameters_.span(), whole.parameters);
  copy(moment1_.span(), whole.moment1);
  copy(moment2_.span(), whole.moment2);
  copy(outer_momentum_.span(), whole.outer_momentum);
  return step_.value_or(step);
}

}  // namespace muster
