// SPDX-License-Identifier: Apache-2.0
// Assigns NICs to GPUs; a part of place().
#pragma once

#include <cstddef>
#include <vector>

#include "placement/topology/node.hpp"

namespace muster::placement {

/// The point that a NIC should be near to: a GPU, or the domain of a task without a GPU.
struct Anchor {
  PciPath path;
  std::vector<int> near;  ///< NUMA domains, ascending; empty: unknown
};

struct NicChoice {
  std::vector<std::size_t> nics;  ///< indices into node.nics, ascending; empty: none usable
  Distance distance = Distance::unknown;
};

/// Chooses the nearest usable NIC of each anchor: by PCI distance, between domains by NUMA distance. If
/// several are equally near, each anchor gets one of them, so that the number of anchors per NIC is as even
/// as possible. NICs still without an anchor then go to their nearest anchors (an adapter with two ports
/// serves one GPU with both), unless they are in another NUMA domain.
std::vector<NicChoice> choose_near_nics(const Node& node, const std::vector<Anchor>& anchors);

}  // namespace muster::placement
