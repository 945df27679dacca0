// SPDX-License-Identifier: Apache-2.0
// The unit in which place() assigns CPUs, and how many units each task gets.
#pragma once

#include <string>
#include <vector>

#include "placement/place/gpu_locality.hpp"
#include "placement/place/place.hpp"

namespace muster::placement {

/// A unit is one hardware thread of each core, a whole core, or a single hardware thread.
struct CpuGranularity {
  enum class Unit { first_thread, whole_core, thread } unit = Unit::first_thread;
  int units_per_task = 0;
  int cpus_per_task = 0;  ///< CPUs to trim a task's whole cores down to; 0: to the smallest task's number
  int repeats = 1;        ///< tasks that may share one unit
  int idle_cores = 0;     ///< left idle because larger equal shares would not be near to the GPUs
  std::string warning;    ///< empty: none
};

/// locality[i]: the local domains of each GPU of task i; empty if one of them is unknown or it has no GPU.
CpuGranularity choose_cpu_granularity(const Node& node, const Request& request, const CpuSet& allotted,
                                      const std::vector<std::vector<LocalDomains>>& locality);

}  // namespace muster::placement
