// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "placement/place/place.hpp"
#include "placement/topology/node.hpp"

namespace muster::placement {

/// A picture of the node as an SVG document: packages, NUMA domains, cores with their hardware threads, GPUs
/// and NICs, each in the colour and with the number of its task; a curve from each GPU to its NIC; and a
/// table of the tasks. Text stays text, and the document refers to nothing outside. Pure.
std::string report_svg(const Node& node, const Placement& placement);

}  // namespace muster::placement
