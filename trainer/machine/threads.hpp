// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "muster/job.hpp"

namespace muster {

/// Compute threads for `rank`: each CPU in its affinity mask counts 1 divided by the number of the host's
/// ranks that may use it; rounded down, at least 1. So ranks bound to their own cores use them all, and
/// unbound ranks share the host.
int fair_threads(const std::vector<Hello>& roster, int rank);

/// `requested` (--threads) when it is positive, else OMP_NUM_THREADS when it is set, else fair_threads().
int choose_threads(int requested, const std::vector<Hello>& roster, int rank);

/// Threads that prepare data for `rank`: `requested` (--data-threads) when it is positive, else those of
/// fair_threads() that do not compute, at least one.
int choose_data_threads(int requested, int compute_threads, const std::vector<Hello>& roster, int rank);

}  // namespace muster
