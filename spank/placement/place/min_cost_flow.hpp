// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace muster::placement {

/// Solves the transportation problem: how much of each consumer's demand each supplier meets, so that as much
/// demand as possible is met and the sum of amount × cost is smallest. Returns flow[consumer][supplier].
/// Exact (successive shortest paths) and deterministic. cost[consumer][supplier] >= 0, and the sum of all
/// costs times all amounts must be below 2^62.
std::vector<std::vector<int>> min_cost_flow(std::vector<int> demand, std::vector<int> supply,
                                            const std::vector<std::vector<std::int64_t>>& cost);

}  // namespace muster::placement
