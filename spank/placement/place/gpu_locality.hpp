// SPDX-License-Identifier: Apache-2.0
// The NUMA domains that a device is near to; a part of place().
#pragma once

#include <functional>
#include <vector>

#include "placement/topology/node.hpp"

namespace muster::placement {

/// Where to take a task's cores for one of its GPUs from.
struct LocalDomains {
  int preferred = -1;     ///< id of the NUMA domain to take cores from first; it has CPUs
  std::vector<int> near;  ///< all domains that count as local, ascending; includes `preferred`
  /// The GPU's own domains if all of them hide their CPUs; `near` then holds the nearest others.
  std::vector<int> hidden;
};

/// The accepted domains nearest to another, ascending: several where they are equally near.
std::vector<int> nearest_domains(const Node& node, int from,
                                 const std::function<bool(const NumaDomain&)>& accept);

/// The processors' NUMA domains that a device is near to, ascending; empty: unknown. A memory-only domain (a
/// GPU's, CXL) is replaced by the nearest domain of a processor; if all are equally far, the locality is
/// unknown. A node's only domain is near to every device. domain, near_domains: those of a Gpu or Nic.
std::vector<int> local_domains(const Node& node, int domain, const std::vector<int>& near_domains);

/// Element i belongs to node.gpus[i]; its `near` is empty if the locality is unknown. GPUs that are near to
/// the same set of domains get different preferred domains of it, in PCI order.
std::vector<LocalDomains> gpu_local_domains(const Node& node);

}  // namespace muster::placement
