// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "training/strategy.hpp"

namespace muster {

/// The tensors of a checkpoint, on rank 0.
struct FullState {
  std::vector<float> parameters, moment1, moment2, outer_momentum;
  TrainingTensors tensors() { return {parameters, moment1, moment2, outer_momentum}; }
  bool operator==(const FullState&) const = default;

  void allocate(const Strategy& strategy) {
    const CheckpointParts parts = strategy.checkpoint_parts();
    const std::size_t size = strategy.table().arena_size;
    parameters.resize(size);
    moment1.resize(size);
    moment2.resize(parts.moments == 2 ? size : 0);
    outer_momentum.resize(parts.outer_momentum ? size : 0);
  }
};

inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  return most;
}

}  // namespace muster
