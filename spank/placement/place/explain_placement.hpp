// SPDX-License-Identifier: Apache-2.0
// Why a task got what it got, in words; a part of place().
#pragma once

#include <string>
#include <vector>

#include "placement/place/place.hpp"
#include "placement/place/place_cpus.hpp"

namespace muster::placement {

std::string host_of(const Node& node);
/// "1 core", "2 cores".
std::string plural(long count, const std::string& noun);

/// Ids of the domains that the CPUs lie on, the one with the most first.
std::vector<int> domains_of(const Node& node, const CpuSet& cpus);

/// near: the domains that the task's GPUs are near to, each once; empty: unknown, or no GPU. hidden: the
/// GPUs' own where their CPUs are hidden.
std::string explain_cpus(const Node& node, const TaskPlacement& task, const std::vector<int>& near,
                         const std::vector<int>& hidden);
/// sources: the domains wanted; of_gpus: because the GPUs are near to them.
std::string explain_memory(const TaskPlacement& task, const std::vector<int>& sources, bool of_gpus);
std::string explain_nics(const Node& node, const TaskPlacement& task);

/// How many of the allotted cores no task has, and why; empty: none.
std::string explain_idle(const Node& node, const Request& request, const CpuSet& allotted,
                         const Placement& placement, const CpuShares& shares);

/// Adds a reason to each task whose GPUs others share or are MIG instances.
void explain_gpus(Placement& placement);

}  // namespace muster::placement
