// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "placement/place/place.hpp"
#include "placement/topology/node.hpp"

namespace muster::placement {

/// A GPU of a task and a NIC that serves it.
struct GpuNicLink {
  const Gpu* gpu;
  const Nic* nic;
  Distance distance;
};

/// Pairs the task's GPUs with its NICs: each GPU with its nearest NIC, and each NIC left over with its
/// nearest GPU. Each pair occurs once; empty if the task has no GPU or no NIC. The node must outlive the
/// result. Pure.
std::vector<GpuNicLink> find_links(const Node& node, const TaskPlacement& task);

}  // namespace muster::placement
