// SPDX-License-Identifier: Apache-2.0
// The title of a node's picture, and the table of its tasks. Pure.
#pragma once

#include <string>

#include "placement/report/report.hpp"
#include "svg/svg.hpp"

namespace muster::placement {

struct PictureTitle {
  std::string line;     ///< "4 tasks on h200-1001"
  std::string details;  ///< "2 packages, 8 NUMA domains, 128 cores, 4 GPUs (NVIDIA H200), 2 of 6 NICs usable"
};
PictureTitle make_title(const Node& node, const Placement& placement);

/// Draws the table with its upper left corner at x, y; returns its box.
Box draw_legend(Svg& svg, const NodeReport& report, double x, double y);

}  // namespace muster::placement
