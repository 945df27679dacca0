// SPDX-License-Identifier: Apache-2.0
// Why a task got what it got, in words; a part of place().
#pragma once

#include <string>
#include <vector>

#include "placement/place.hpp"

namespace muster::placement {

/// Ids of the domains that the CPUs lie on, the one with the most first.
std::vector<int> domains_of(const Node& node, const CpuSet& cpus);

/// homes: the domains that the task's GPUs are near to, each once; all_homes: they are known for every GPU.
std::string explain_cpus(const Node& node, const TaskPlacement& task, const std::vector<int>& homes,
                         bool all_homes);
std::string explain_memory(const TaskPlacement& task, const std::vector<int>& homes, bool all_homes);
std::string explain_nics(const Node& node, const TaskPlacement& task);

}  // namespace muster::placement
