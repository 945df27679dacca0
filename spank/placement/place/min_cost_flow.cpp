// SPDX-License-Identifier: Apache-2.0
#include "placement/place/min_cost_flow.hpp"

#include <algorithm>
#include <limits>

namespace muster::placement {

namespace {

constexpr std::int64_t unreachable = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

/// Cheapest ways from any source with demand left, in the residual graph: to a store at the cost, and back
/// from a store to a source that uses it at minus the cost (that source then looks elsewhere).
struct Paths {
  std::vector<std::int64_t> to_source, to_store;
  std::vector<std::size_t> source_from;  // store through which a source is reached; none: it starts there
  std::vector<std::size_t> store_from;   // source through which a store is reached
};

Paths find_paths(const std::vector<int>& demand, std::size_t stores,
                 const std::vector<std::vector<std::int64_t>>& cost,
                 const std::vector<std::vector<int>>& flow) {
  const std::size_t sources = demand.size();
  Paths paths{std::vector<std::int64_t>(sources, unreachable), std::vector<std::int64_t>(stores, unreachable),
              std::vector<std::size_t>(sources, none), std::vector<std::size_t>(stores, none)};
  for (std::size_t i = 0; i < sources; ++i) {
    if (demand[i] > 0) paths.to_source[i] = 0;
  }
  for (bool changed = true; changed;) {  // Bellman-Ford; ends since the residual graph has no negative cycle
    changed = false;
    for (std::size_t i = 0; i < sources; ++i) {
      if (paths.to_source[i] == unreachable) continue;
      for (std::size_t j = 0; j < stores; ++j) {
        const std::int64_t there = paths.to_source[i] + cost[i][j];
        if (there < paths.to_store[j]) {
          paths.to_store[j] = there;
          paths.store_from[j] = i;
          changed = true;
        }
      }
    }
    for (std::size_t j = 0; j < stores; ++j) {
      if (paths.to_store[j] == unreachable) continue;
      for (std::size_t i = 0; i < sources; ++i) {
        if (flow[i][j] == 0 || paths.to_store[j] - cost[i][j] >= paths.to_source[i]) continue;
        paths.to_source[i] = paths.to_store[j] - cost[i][j];
        paths.source_from[i] = j;
        changed = true;
      }
    }
  }
  return paths;
}

}  // namespace

std::vector<std::vector<int>> cheapest_transport(std::vector<int> demand, std::vector<int> supply,
                                                 const std::vector<std::vector<std::int64_t>>& cost) {
  std::vector<std::vector<int>> flow(demand.size(), std::vector<int>(supply.size()));
  while (true) {
    const Paths paths = find_paths(demand, supply.size(), cost, flow);
    std::size_t end = none;
    for (std::size_t j = 0; j < supply.size(); ++j) {
      if (supply[j] > 0 && paths.to_store[j] != unreachable &&
          (end == none || paths.to_store[j] < paths.to_store[end])) {
        end = j;
      }
    }
    if (end == none) return flow;
    int amount = supply[end];
    for (std::size_t store = end;;) {
      const std::size_t source = paths.store_from[store];
      const std::size_t before = paths.source_from[source];
      if (before == none) {
        amount = std::min(amount, demand[source]);
        demand[source] -= amount;
        break;
      }
      amount = std::min(amount, flow[source][before]);
      store = before;
    }
    supply[end] -= amount;
    for (std::size_t store = end; store != none;) {
      const std::size_t source = paths.store_from[store];
      flow[source][store] += amount;
      store = paths.source_from[source];
      if (store != none) flow[source][store] -= amount;
    }
  }
}

}  // namespace muster::placement
