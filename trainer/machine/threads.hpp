// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/job.hpp"

namespace muster {

/// "0-3,8" as 0, 1, 2, 3, 8. Parts that are no numbers, or beyond CPU 65535, are left out.
std::vector<int> parse_cpu_list(const std::string& text);

/// Compute threads for `rank`: each CPU it may run on counts one, divided by the number of ranks of its host
/// that may run there too; rounded down, at least 1. So ranks bound to cores of their own use them all, and
/// unbound ones share the host.
int fair_threads(const std::vector<Hello>& roster, int rank);

/// `wish` when it is positive (--threads), else OMP_NUM_THREADS when set, else fair_threads().
int choose_threads(int wish, const std::vector<Hello>& roster, int rank);

}  // namespace muster
