// SPDX-License-Identifier: Apache-2.0
#include "run/state_copy.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace muster {

StateCopy::StateCopy(Strategy& strategy, const TrainingState& state) {
  const std::size_t size = strategy.table().arena_size;
  const auto [moments, outer_momentum] = strategy.checkpoint_parts();
  parameters_ = compute::Arena<float>(size);
  moment1_ = compute::Arena<float>(moments > 0 ? size : 0);
  moment2_ = compute::Arena<float>(moments > 1 ? size : 0);
  outer_momentum_ = compute::Arena<float>(outer_momentum ? size : 0);
  const auto step = strategy.copy_state(tensors(), state.step);
  if (!step) return;
  const std::int64_t steps_back = state.step - *step;
  position_ = {1, *step, state.samples - steps_back * state.batch, steps_back == 0 ? state.skipped : 0};
}

bool StateCopy::collect(Communicator& world, TrainingState& state) {
  constexpr std::size_t fields = sizeof(Position) / sizeof(std::int64_t);
  const std::int64_t mine[fields] = {position_.complete, position_.step, position_.samples,
                                     position_.skipped};
  std::vector<std::int64_t> all(fields * static_cast<std::size_t>(world.size()));
  world.all_gather(std::span<const std::int64_t>(mine), std::span(all));
  Position newest;
  int from = -1;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::int64_t* const of = &all[fields * static_cast<std::size_t>(rank)];
    if (of[0] == 0 || (from >= 0 && of[1] <= newest.step)) continue;
    newest = {of[0], of[1], of[2], of[3]};
    from = rank;
  }
  if (from < 0) return false;
  if (from > 0) transfer(world, from);
  if (world.rank() == 0) position_ = newest;
  state.step = newest.step;
  state.samples = newest.samples;
  state.skipped = newest.skipped;
  return true;
}

void StateCopy::transfer(Communicator& world, int from) {
  if (world.rank() == 0) position_.complete = 0;  // until all of it has arrived
  const TrainingTensors all = tensors();
  for (const std::span<float> part : {all.parameters, all.moment1, all.moment2, all.outer_momentum}) {
    if (part.empty()) continue;
    if (world.rank() == 0) world.recv(part, from);
    if (world.rank() == from) world.send(std::span<const float>(part), 0);
  }
}

}  // namespace muster
