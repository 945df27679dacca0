// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/checkpoint.hpp"
#include "compute/arena.hpp"

namespace muster {

/// A worker's state after the last synchronization, in host memory: all workers go back to it after the loss
/// of one, because the steps that the lost worker has made since are lost.
class Snapshot {
 public:
  /// `size`: elements of an arena.
  Snapshot(std::size_t size, const CheckpointParts& parts);

  /// Where a new state is written. It must be followed by taken().
  TrainingTensors tensors() noexcept;
  /// The state is that after this step; without one, that after the step before the next call of begin().
  void taken(std::optional<std::int64_t> step) { step_ = step; }
  void begin(std::int64_t step) {
    if (!step_) step_ = step;
  }
  /// Copies it, and returns its step; without one, `step`.
  std::int64_t copy_to(const TrainingTensors& whole, std::int64_t step);

 private:
  compute::Arena<float> parameters_, moment1_, moment2_, outer_momentum_;
  std::optional<std::int64_t> step_;
};

}  // namespace muster
