// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/job.hpp"

namespace muster::bootstrap {

/// Ascending numbers as ranges: {0, 1, 2, 5} → "0-2,5".
std::string format_ranges(const std::vector<int>& numbers);

/// "rank 3 (host b)", "ranks 4-7 (host b)", "ranks 0-3,8-11 (hosts a, c)"; of many hosts the first three are
/// named: "ranks 0-63 (hosts a, b, c and 5 more)". `ranks` ascending.
std::string format_ranks(const std::vector<Hello>& roster, const std::vector<int>& ranks);

}  // namespace muster::bootstrap
