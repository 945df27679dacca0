// SPDX-License-Identifier: Apache-2.0
// Which NICs serve which GPUs; a part of place().
#pragma once

#include <cstddef>
#include <vector>

#include "placement/topology/node.hpp"

namespace muster::placement {

/// What a NIC is to be near to: a GPU, or the domain of a task without one.
struct Anchor {
  PciPath path;
  std::vector<int> near;  ///< NUMA domains, ascending; empty: unknown
};

struct NicChoice {
  std::vector<std::size_t> nics;  ///< indices into node.nics, ascending; empty: none usable
  Distance distance = Distance::unknown;
};

/// For each anchor the nearest usable NIC: by PCI distance, between domains by NUMA distance. Of several that
/// are equally near, each anchor gets one, so that the number of anchors per NIC is as even as possible. NICs
/// still without an anchor then go to the anchors that they are nearest to (an adapter with two ports serves
/// one GPU with both), unless they are in another NUMA domain.
std::vector<NicChoice> choose_near_nics(const Node& node, const std::vector<Anchor>& anchors);

}  // namespace muster::placement
