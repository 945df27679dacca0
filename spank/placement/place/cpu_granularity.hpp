// SPDX-License-Identifier: Apache-2.0
// How much of the allotted CPUs each task gets; a part of place().
#pragma once

#include <string>
#include <vector>

#include "placement/place/place.hpp"
#include "placement/place/gpu_locality.hpp"

namespace muster::placement {

/// A unit is one hardware thread per core, a whole core, or a single hardware thread.
struct Grain {
  enum class Unit { first_thread, whole_core, thread } unit = Unit::first_thread;
  int units_per_task = 0;
  int cpus_per_task = 0;  ///< what to trim a task's whole cores down to; 0: to what all tasks have
  int repeats = 1;        ///< tasks that may share one unit
  int idle_cores = 0;     ///< because larger equal shares would not be near to the GPUs
  std::string warning;    ///< empty: none
};

/// homes[i]: of each GPU of task i; empty if that is not known for all of its GPUs, or it has none.
Grain choose_grain(const Node& node, const Request& request, const CpuSet& allotted,
                   const std::vector<std::vector<Home>>& homes);

}  // namespace muster::placement
