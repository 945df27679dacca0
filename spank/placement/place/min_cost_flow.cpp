// SPDX-License-Identifier: Apache-2.0
#include "placement/place/min_cost_flow.hpp"

#include <algorithm>
#include <limits>

namespace muster::placement {

namespace {

constexpr std::int64_t unreachable = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

/// Cheapest paths from any consumer with demand left, in the residual graph. An edge to a supplier has the
/// cost; an edge back from a supplier to a consumer that uses it has minus the cost (that consumer is
/// rerouted).
struct Paths {
  std::vector<std::int64_t> to_consumer, to_supplier;
  std::vector<std::size_t> consumer_from;  // previous supplier on the path; none: the path starts here
  std::vector<std::size_t> supplier_from;  // previous consumer on the path to a supplier
};

Paths find_paths(const std::vector<int>& demand, std::size_t suppliers,
                 const std::vector<std::vector<std::int64_t>>& cost,
                 const std::vector<std::vector<int>>& flow) {
  const std::size_t consumers = demand.size();
  Paths paths{std::vector<std::int64_t>(consumers, unreachable),
              std::vector<std::int64_t>(suppliers, unreachable), std::vector<std::size_t>(consumers, none),
              std::vector<std::size_t>(suppliers, none)};
  for (std::size_t i = 0; i < consumers; ++i) {
    if (demand[i] > 0) paths.to_consumer[i] = 0;
  }
  for (bool changed = true;
       changed;) {  // Bellman-Ford; ends because the residual graph has no negative cycle
    changed = false;
    for (std::size_t i = 0; i < consumers; ++i) {
      if (paths.to_consumer[i] == unreachable) continue;
      for (std::size_t j = 0; j < suppliers; ++j) {
        const std::int64_t there = paths.to_consumer[i] + cost[i][j];
        if (there < paths.to_supplier[j]) {
          paths.to_supplier[j] = there;
          paths.supplier_from[j] = i;
          changed = true;
        }
      }
    }
    for (std::size_t j = 0; j < suppliers; ++j) {
      if (paths.to_supplier[j] == unreachable) continue;
      for (std::size_t i = 0; i < consumers; ++i) {
        if (flow[i][j] == 0 || paths.to_supplier[j] - cost[i][j] >= paths.to_consumer[i]) continue;
        paths.to_consumer[i] = paths.to_supplier[j] - cost[i][j];
        paths.consumer_from[i] = j;
        changed = true;
      }
    }
  }
  return paths;
}

}  // namespace

std::vector<std::vector<int>> min_cost_flow(std::vector<int> demand, std::vector<int> supply,
                                            const std::vector<std::vector<std::int64_t>>& cost) {
  std::vector<std::vector<int>> flow(demand.size(), std::vector<int>(supply.size()));
  while (true) {
    const Paths paths = find_paths(demand, supply.size(), cost, flow);
    std::size_t end = none;
    for (std::size_t j = 0; j < supply.size(); ++j) {
      if (supply[j] > 0 && paths.to_supplier[j] != unreachable &&
          (end == none || paths.to_supplier[j] < paths.to_supplier[end])) {
        end = j;
      }
    }
    if (end == none) return flow;
    int amount = supply[end];
    for (std::size_t supplier = end;;) {
      const std::size_t consumer = paths.supplier_from[supplier];
      const std::size_t before = paths.consumer_from[consumer];
      if (before == none) {
        amount = std::min(amount, demand[consumer]);
        demand[consumer] -= amount;
        break;
      }
      amount = std::min(amount, flow[consumer][before]);
      supplier = before;
    }
    supply[end] -= amount;
    for (std::size_t supplier = end; supplier != none;) {
      const std::size_t consumer = paths.supplier_from[supplier];
      flow[consumer][supplier] += amount;
      supplier = paths.consumer_from[consumer];
      if (supplier != none) flow[consumer][supplier] -= amount;
    }
  }
}

}  // namespace muster::placement
