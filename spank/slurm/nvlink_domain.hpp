// SPDX-License-Identifier: Apache-2.0
// What the report says of NVLink between nodes (an NVL72 rack): the IMEX channels that a task may open, the
// block of Slurm's topology, and what would keep NCCL from it. NVML, which knows more, is the runtime's
// matter.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "placement/topology/node.hpp"

namespace muster::spank {

struct NvlinkDomain {
  std::vector<std::string> notes;     ///< one line each
  std::vector<std::string> warnings;  ///< only for GPUs that are made for it, in steps of several nodes
};

/// In a task, so that what it may open is known. nodes: of the step; variable: what the task will find set,
/// in its environment or in NCCL's files; root: below this folder instead of "".
NvlinkDomain nvlink_domain(const placement::Node& node, int nodes,
                           const std::function<std::optional<std::string>(const std::string& name)>& variable,
                           const std::string& root = "");

}  // namespace muster::spank
