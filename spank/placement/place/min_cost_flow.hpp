// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace muster::placement {

/// The transportation problem: how much of each source's demand to take from each store so that the sum of
/// amount × cost is smallest and as much demand as possible is met. Returns flow[source][store]. Solved
/// exactly by successive shortest paths; deterministic. cost[source][store] >= 0, and so small that the sum
/// of all costs times all amounts is below 2^62.
std::vector<std::vector<int>> cheapest_transport(std::vector<int> demand, std::vector<int> supply,
                                                 const std::vector<std::vector<std::int64_t>>& cost);

}  // namespace muster::placement
