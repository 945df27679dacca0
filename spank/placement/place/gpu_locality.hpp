// SPDX-License-Identifier: Apache-2.0
// What a device is near to; a part of place().
#pragma once

#include <vector>

#include "placement/topology/node.hpp"

namespace muster::placement {

/// Where a task's cores for one of its GPUs should be.
struct Home {
  int domain = -1;        ///< id of the NUMA domain to take cores from first; it has CPUs
  std::vector<int> near;  ///< all domains that count as local, ascending, domain among them
  std::vector<int>
      hidden;  ///< the GPU's own domains, where all of them hide their CPUs: near is not local then
};

/// The processors' NUMA domains that a device is near to, ascending; empty: nothing is known. A domain of
/// memory alone (a GPU's, CXL) stands for the nearest one of a processor; if all are equally far, nothing is
/// known. On a node with one domain, that is it. domain, near_domains: of a Gpu or Nic.
std::vector<int> local_domains(const Node& node, int domain, const std::vector<int>& near_domains);

/// homes[i] belongs to node.gpus[i]; near is empty where nothing is known. GPUs that are near to the same
/// several domains have them dealt out as their first, in PCI order.
std::vector<Home> homes_of_gpus(const Node& node);

}  // namespace muster::placement
