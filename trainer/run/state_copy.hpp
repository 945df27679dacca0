// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/training_state.hpp"
#include "compute/arena.hpp"
#include "muster/muster.hpp"
#include "muster/sampler.hpp"
#include "training/strategy.hpp"

namespace muster {

/// A copy of this rank's training state in host memory: tensors and position. It outlives the strategy that
/// is built anew on the ranks that remain after a loss.
class StateCopy {
 public:
  /// That of a spare, which has no state.
  StateCopy() = default;
  /// Copies what this rank has of the strategy's state after `state.step` updates, or of that to which the
  /// strategy goes back.
  StateCopy(Strategy& strategy, const TrainingState& state);

  /// Gives rank 0 the state with the most updates, from one rank or in parts from several, and each rank's
  /// `state` its position. Ranks can differ by one update, or by one synchronization, because a loss
  /// interrupts some of them before it. False on all ranks when a part of that state is missing. No rank
  /// without state precedes one with it. Collective over the job. After an exception it can be called again
  /// on fewer ranks.
  bool collect(Communicator& world, TrainingState& state);
  TrainingTensors tensors() noexcept {
    return {parameters_.span(), moment1_.span(), moment2_.span(), outer_momentum_.span()};
  }

 private:
  struct Position {
    std::int64_t step = 0, samples = 0, skipped = 0;
    std::int64_t size = 0;  ///< of an arena
    Share parts[2] = {};    ///< of the arenas; both are empty without state
  };
  /// A part of the arenas that rank 0 takes from `rank`.
  struct Source {
    int rank = 0;
    Share part;
  };
  static bool has_state(const Position& position);
  /// Where all of the state is that `newest` has; empty when a part is missing.
  static std::vector<Source> find_sources(const std::vector<Position>& all, const Position& newest);
  void transfer(Communicator& world, const Source& source);

  compute::Arena<float> parameters_, moment1_, moment2_, outer_momentum_;
  Position position_;
};

}  // namespace muster
