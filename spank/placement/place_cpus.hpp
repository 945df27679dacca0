// SPDX-License-Identifier: Apache-2.0
// How the allotted CPUs are shared out; a part of place().
#pragma once

#include <string>
#include <vector>

#include "placement/place.hpp"

namespace muster::placement {

struct CpuShares {
  std::vector<CpuSet> cpus;  ///< one set per task
  std::vector<std::string> warnings;
};

/// homes[i]: for each GPU of task i the id of the NUMA domain that it is near to, with repetitions; empty:
/// nothing is known to be near, then whole domains are dealt to the tasks in turn. allotted: a non-empty
/// subset of the node's CPUs. Optimal in this sense: as many cores as possible are on their task's homes;
/// among those answers, the sum over all other cores of the NUMA distance from home to core is smallest.
CpuShares share_cpus(const Node& node, const Request& request, const CpuSet& allotted,
                     const std::vector<std::vector<int>>& homes);

}  // namespace muster::placement
