// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "machine/rank_info.hpp"

namespace muster {

/// Picture of the placement: a frame per host, in it a line per rank with GPU, network card, memory and the
/// host's CPUs, of which the rank's are coloured. One <svg> element for a page that has svg_style() and
/// placement_style(). A large job is cut after its first hosts.
std::string draw_placement(const std::vector<RankInfo>& ranks);

std::string placement_style();

}  // namespace muster
