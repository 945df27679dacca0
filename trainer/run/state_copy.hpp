// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/training_state.hpp"
#include "compute/arena.hpp"
#include "muster/muster.hpp"
#include "training/strategy.hpp"

namespace muster {

/// A copy of this rank's training state in host memory: tensors and position. It outlives the strategy that
/// is built anew on the ranks that remain after a loss.
class StateCopy {
 public:
  /// That of a spare, which has no state.
  StateCopy() = default;
  /// Copies the strategy's state after `state.step` updates, if this rank has all of it, or that to which the
  /// strategy goes back.
  StateCopy(Strategy& strategy, const TrainingState& state);

  /// Gives rank 0 the state of a rank with the most updates, and each rank's `state` its position. Ranks can
  /// differ by one update, or by one synchronization, because a loss interrupts some of them before it. False
  /// on all ranks when no rank has a complete state. No rank without state precedes one with it. Collective
  /// over the job. After an exception it can be called again on fewer ranks.
  bool collect(Communicator& world, TrainingState& state);
  TrainingTensors tensors() noexcept {
    return {parameters_.span(), moment1_.span(), moment2_.span(), outer_momentum_.span()};
  }

 private:
  struct Position {
    std::int64_t complete = 0, step = 0, samples = 0, skipped = 0;
  };
  void transfer(Communicator& world, int from);

  compute::Arena<float> parameters_, moment1_, moment2_, outer_momentum_;
  Position position_;
};

}  // namespace muster
