// SPDX-License-Identifier: Apache-2.0
// The report's lines on NVLink between nodes (an NVL72 rack): the IMEX channels that a task may open, the
// block of Slurm's topology, and settings that keep NCCL from this NVLink. The runtime queries NVML, which
// knows more.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "placement/topology/node.hpp"

namespace muster::spank {

struct NvlinkDomain {
  std::vector<std::string> notes;     ///< one line each
  std::vector<std::string> warnings;  ///< only for GPUs with NVLink between nodes, in steps of several nodes
};

/// Call this in a task, since it tests which files the task may open. nodes: the number of the step's nodes;
/// variable: returns a variable as the task will find it, in its environment or in NCCL's files; root: a
/// prefix of all paths.
NvlinkDomain nvlink_domain(const placement::Node& node, int nodes,
                           const std::function<std::optional<std::string>(const std::string& name)>& variable,
                           const std::string& root = "");

}  // namespace muster::spank
