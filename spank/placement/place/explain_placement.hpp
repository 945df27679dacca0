// SPDX-License-Identifier: Apache-2.0
// The reasons of a placement as text; a part of place().
#pragma once

#include <string>
#include <vector>

#include "placement/place/place.hpp"
#include "placement/place/place_cpus.hpp"
#include "text/plural.hpp"

namespace muster::placement {

/// "this node" if the name is unknown.
std::string host_name(const Node& node);

/// Ids of the domains that the CPUs belong to, the domain with the most CPUs first.
std::vector<int> find_domains(const Node& node, const CpuSet& cpus);

/// near: the domains that the task's GPUs are near to, each once; empty: unknown, or no GPU. hidden: the
/// GPUs' own domains if their CPUs are hidden.
std::string explain_cpus(const Node& node, const TaskPlacement& task, const std::vector<int>& near,
                         const std::vector<int>& hidden);
/// sources: the domains that memory should come from; of_gpus: the GPUs are near to them.
std::string explain_memory(const TaskPlacement& task, const std::vector<int>& sources, bool of_gpus);
std::string explain_nics(const Node& node, const TaskPlacement& task);

/// How many allotted cores stay idle, and why; empty: none.
std::string explain_idle(const Node& node, const Request& request, const CpuSet& allotted,
                         const Placement& placement, const CpuPartition& partition);

/// Adds a reason to each task with shared GPUs or MIG instances.
void explain_gpus(Placement& placement);

}  // namespace muster::placement
