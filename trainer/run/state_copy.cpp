// SPDX-License-Identifier: Apache-2.0
#include "run/state_copy.hpp"

#include <algorithm>
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
  const auto copied = strategy.copy_state(tensors(), state.step);
  if (!copied) return;
  const std::int64_t steps_back = state.step - copied->step;
  position_ = {copied->step,
               state.samples - steps_back * state.batch,
               steps_back == 0 ? state.skipped : 0,
               static_cast<std::int64_t>(size),
               {}};
  std::copy(copied->parts.begin(), copied->parts.end(), position_.parts);
}

bool StateCopy::has_state(const Position& position) {
  return position.parts[0].count() + position.parts[1].count() > 0;
}

std::vector<StateCopy::Source> StateCopy::find_sources(const std::vector<Position>& all,
                                                       const Position& newest) {
  std::vector<Source> sources;
  for (auto at = std::uint64_t{0}; at < static_cast<std::uint64_t>(newest.size);) {
    const std::uint64_t begin = at;
    for (std::size_t rank = 0; rank < all.size() && at == begin; ++rank) {
      if (all[rank].step != newest.step) continue;
      for (const Share& part : all[rank].parts) {
        if (at < part.begin || at >= part.end) continue;
        sources.push_back({static_cast<int>(rank), {at, part.end}});
        at = part.end;
      }
    }
    if (at == begin) return {};
  }
  return sources;
}

bool StateCopy::collect(Communicator& world, TrainingState& state) {
  static_assert(sizeof(Position) % sizeof(std::int64_t) == 0);
  constexpr std::size_t fields = sizeof(Position) / sizeof(std::int64_t);
  std::vector<Position> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::span<const std::int64_t>(reinterpret_cast<const std::int64_t*>(&position_), fields),
                   std::span<std::int64_t>(reinterpret_cast<std::int64_t*>(all.data()), fields * all.size()));
  const auto newest = std::max_element(all.begin(), all.end(), [](const Position& a, const Position& b) {
    return has_state(b) && (!has_state(a) || a.step < b.step);
  });
  if (!has_state(*newest)) return false;
  const std::vector<Source> sources = find_sources(all, *newest);
  if (sources.empty()) return false;
  // What rank 0 has of an older state is overwritten.
  if (world.rank() == 0 && position_.step != newest->step) position_ = {};
  for (const Source& source : sources) transfer(world, source);
  if (world.rank() == 0) {
    position_ = *newest;
    position_.parts[0] = {0, static_cast<std::uint64_t>(newest->size)};
    position_.parts[1] = {};
  }
  state.step = newest->step;
  state.samples = newest->samples;
  state.skipped = newest->skipped;
  return true;
}

void StateCopy::transfer(Communicator& world, const Source& source) {
  if (source.rank == 0) return;
  const TrainingTensors all = tensors();
  for (const std::span<float> arena : {all.parameters, all.moment1, all.moment2, all.outer_momentum}) {
    if (arena.empty()) continue;
    const std::span<float> part = arena.subspan(source.part.begin, source.part.count());
    if (world.rank() == 0) world.recv(part, source.rank);
    if (world.rank() == source.rank) world.send(std::span<const float>(part), 0);
  }
}

}  // namespace muster
