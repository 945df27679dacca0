// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "strategies/pipeline/schedule_replay.hpp"

namespace muster::pipeline {

/// One <svg> element, for a page with the trainer's svg_style(): a row for each rank, and a box for each of
/// its operations, in seconds from the beginning of a step. Empty when there are none, or too many for a
/// page.
std::string draw_schedule(const std::vector<std::vector<TimedOperation>>& ranks, const std::string& title,
                          const std::string& subtitle);

}  // namespace muster::pipeline
