// SPDX-License-Identifier: Apache-2.0
// Assigns the allotted CPUs to the tasks; a part of place().
#pragma once

#include <string>
#include <vector>

#include "placement/place/gpu_locality.hpp"
#include "placement/place/place.hpp"

namespace muster::placement {

struct CpuPartition {
  std::vector<CpuSet> cpus;  ///< one set per task
  int idle_cores = 0;        ///< left idle because larger equal shares would not be near to the GPUs
  std::vector<std::string> warnings;
};

/// locality[i]: the local domains of each GPU of task i; empty: unknown, then the task gets any domain's
/// cores. allotted: a non-empty subset of the node's CPUs. The answer is optimal by these criteria, in this
/// order:
/// 1. As many cores as possible are near to their task's GPUs.
/// 2. The sum over all other cores of the NUMA distance from the nearest of those domains is smallest.
/// 3. As many cores as possible are on the preferred domains, in proportion to the task's GPUs.
CpuPartition partition_cpus(const Node& node, const Request& request, const CpuSet& allotted,
                            const std::vector<std::vector<LocalDomains>>& locality);

}  // namespace muster::placement
