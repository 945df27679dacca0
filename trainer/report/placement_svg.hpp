// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "machine/rank_info.hpp"

namespace muster {

/// Who runs where: a frame for each host, a line in it for each of its ranks, with GPU, network card and
/// memory, and the host's CPUs of which it may use the coloured ones. One <svg> element for a page that has
/// svg_style() and placement_style(). Of a large job the first hosts.
std::string draw_placement(const std::vector<RankFacts>& ranks);

std::string placement_style();

}  // namespace muster
