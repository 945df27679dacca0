// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/job.hpp"

namespace muster {

/// Parses "0-3,8" to 0, 1, 2, 3, 8. Parts that are not numbers, or above CPU 65535, are ignored.
std::vector<int> parse_cpu_list(const std::string& text);

/// Compute threads for `rank`: each CPU in its affinity mask counts 1 divided by the number of the host's
/// ranks that may use it; rounded down, at least 1. So ranks bound to their own cores use them all, and
/// unbound ranks share the host.
int fair_threads(const std::vector<Hello>& roster, int rank);

/// `requested` (--threads) when it is positive, else OMP_NUM_THREADS when it is set, else fair_threads().
int choose_threads(int requested, const std::vector<Hello>& roster, int rank);

}  // namespace muster
