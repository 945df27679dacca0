// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/divide_layers.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace muster::pipeline {
namespace {

/// The best division of the first layers into the first stages.
struct Best {
  double cost = std::numeric_limits<double>::infinity();
  int last_begin = 0;  ///< where its last stage begins
};

}  // namespace

std::vector<models::LayerRange> divide_layers(int layers, int stages, const StageCost& cost) {
  std::map<std::tuple<int, bool, bool, int>, double> known;
  const auto cost_of = [&](int stage, int first, int last) {
    const auto [found, is_new] = known.try_emplace({stage, first == 0, last == layers, last - first});
    if (is_new) found->second = cost(stage, {first, last});
    return found->second;
  };
  std::vector<std::vector<Best>> best(static_cast<std::size_t>(stages) + 1,
                                      std::vector<Best>(static_cast<std::size_t>(layers) + 1));
  const auto at = [&](int stage, int layer) -> Best& {
    return best[static_cast<std::size_t>(stage)][static_cast<std::size_t>(layer)];
  };
  at(0, 0).cost = 0;
  for (int stage = 0; stage < stages; ++stage) {
    for (int last = stage + 1; last <= layers - (stages - 1 - stage); ++last) {
      for (int first = stage; first < last; ++first) {
        if (at(stage, first).cost > at(stage + 1, last).cost) continue;
        const double most = std::max(at(stage, first).cost, cost_of(stage, first, last));
        if (most < at(stage + 1, last).cost) at(stage + 1, last) = {most, first};
      }
    }
  }
  std::vector<models::LayerRange> ranges;
  for (int stage = stages, last = layers; stage > 0; --stage) {
    const int first = at(stage, last).last_begin;
    ranges.push_back({first, last});
    last = first;
  }
  std::reverse(ranges.begin(), ranges.end());
  return ranges;
}

}  // namespace muster::pipeline
