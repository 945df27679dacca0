// SPDX-License-Identifier: Apache-2.0
// How the allotted CPUs are shared out; a part of place().
#pragma once

#include <string>
#include <vector>

#include "placement/place/place.hpp"
#include "placement/place/gpu_locality.hpp"

namespace muster::placement {

struct CpuShares {
  std::vector<CpuSet> cpus;  ///< one set per task
  int idle_cores = 0;        ///< left idle because larger equal shares would not be near to the GPUs
  std::vector<std::string> warnings;
};

/// homes[i]: of each GPU of task i; empty: nothing is known to be near, then whole domains are dealt to the
/// tasks in turn. allotted: a non-empty subset of the node's CPUs. Optimal in this sense: as many cores as
/// possible are near to their task's GPUs; among those answers, the sum over all other cores of the NUMA
/// distance from the nearest of those domains to the core is smallest; among those, as many as possible are
/// on the homes' first domains, in proportion to the task's GPUs.
CpuShares share_cpus(const Node& node, const Request& request, const CpuSet& allotted,
                     const std::vector<std::vector<Home>>& homes);

}  // namespace muster::placement
