// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hwloc.h>

#include "placement/topology/node.hpp"

namespace muster::placement {

/// Adds the NVIDIA GPUs and the RDMA and Slingshot ports of a loaded topology to a node that has its domains.
/// Throws std::logic_error if a port's LID is not a number.
void read_hwloc_devices(hwloc_topology_t topology, Node& node);

}  // namespace muster::placement
