// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <random>

#include "catch.hpp"
#include "placement/place/min_cost_flow.hpp"

using namespace muster::placement;

namespace {

/// The smallest cost of meeting all demand, by exhaustive search.
long exhaustive(std::vector<int> demand, std::vector<int> supply,
                const std::vector<std::vector<std::int64_t>>& cost) {
  for (std::size_t i = 0; i < demand.size(); ++i) {
    if (demand[i] == 0) continue;
    --demand[i];
    long best = std::numeric_limits<long>::max();
    for (std::size_t j = 0; j < supply.size(); ++j) {
      if (supply[j] == 0) continue;
      --supply[j];
      const long rest = exhaustive(demand, supply, cost);
      ++supply[j];
      if (rest != std::numeric_limits<long>::max()) best = std::min<long>(best, rest + cost[i][j]);
    }
    return best;
  }
  return 0;
}

}  // namespace

TEST_CASE("min_cost_flow() meets as much demand as possible at the smallest cost") {
  std::mt19937 random(11);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 300; ++round) {
    std::vector<int> demand(static_cast<std::size_t>(pick(1, 3)));
    std::vector<int> supply(static_cast<std::size_t>(pick(1, 4)));
    int wanted = 0, there = 0;
    for (auto& amount : demand) wanted += amount = pick(0, 2);
    for (auto& amount : supply) there += amount = pick(0, 3);
    std::vector<std::vector<std::int64_t>> cost(demand.size(), std::vector<std::int64_t>(supply.size()));
    for (auto& row : cost) {
      for (auto& entry : row) entry = pick(10, 40);
    }
    const auto flow = min_cost_flow(demand, supply, cost);
    long total = 0;
    int moved = 0;
    std::vector<int> used(supply.size());
    for (std::size_t i = 0; i < demand.size(); ++i) {
      int given = 0;
      for (std::size_t j = 0; j < supply.size(); ++j) {
        REQUIRE(flow[i][j] >= 0);
        given += flow[i][j];
        used[j] += flow[i][j];
        total += static_cast<long>(flow[i][j]) * cost[i][j];
      }
      CHECK(given <= demand[i]);
      moved += given;
    }
    for (std::size_t j = 0; j < supply.size(); ++j) CHECK(used[j] <= supply[j]);
    CHECK(moved == std::min(wanted, there));
    if (wanted <= there) CHECK(total == exhaustive(demand, supply, cost));
  }
}
