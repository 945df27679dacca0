// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/divide_layers.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

namespace muster::pipeline {
namespace {

/// The best division of the first layers into the first stages.
struct Best {
  double cost = std::numeric_limits<double>::infinity();
  int last_begin = 0;  ///< where its last stage begins
};

/// The costs of stages, each asked once for equal kinds of layers.
class StageCostCache {
 public:
  StageCostCache(const std::vector<int>& kinds, const StageCost& cost)
      : cost_(cost), layers_(kinds.size()), same_(layers_ * (layers_ + 1)) {
    std::map<std::vector<int>, std::size_t> numbers;
    for (std::size_t first = 0; first < layers_; ++first) {
      std::vector<int> range;
      for (std::size_t last = first + 1; last <= layers_; ++last) {
        range.push_back(kinds[last - 1]);
        same_[first * (layers_ + 1) + last] = numbers.try_emplace(range, numbers.size()).first->second;
      }
    }
  }

  double operator()(int stage, int first, int last) {
    const std::size_t same =
        same_[static_cast<std::size_t>(first) * (layers_ + 1) + static_cast<std::size_t>(last)];
    const auto [found, is_new] = known_.try_emplace({stage, same});
    if (is_new) found->second = cost_(stage, {first, last});
    return found->second;
  }

 private:
  const StageCost& cost_;
  std::size_t layers_;
  std::vector<std::size_t> same_;  ///< [first, last]: equal numbers for equal kinds
  std::map<std::pair<int, std::size_t>, double> known_;
};

}  // namespace

std::vector<models::LayerRange> divide_layers(const std::vector<int>& kinds, int stages,
                                              const StageCost& cost) {
  const int layers = static_cast<int>(kinds.size());
  StageCostCache cost_of(kinds, cost);
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
