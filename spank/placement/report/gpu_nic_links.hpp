// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "placement/place/place.hpp"
#include "placement/topology/node.hpp"

namespace muster::placement {

/// A GPU of a task and a NIC that serves it.
struct TaskLink {
  const Gpu* gpu;
  const Nic* nic;
  Distance distance;
};

/// Which GPU of the task uses which of its NICs: each GPU the nearest, and each NIC at least the nearest GPU.
/// Each pair once; none when the task has no GPU or no NIC. The node must outlive the result. Pure.
std::vector<TaskLink> links_of(const Node& node, const TaskPlacement& task);

}  // namespace muster::placement
