// SPDX-License-Identifier: Apache-2.0
// Carries a planned step from the process that planned it to the tasks; slurmstepd passes the bytes on
// without parsing them.
#pragma once

#include <string>
#include <string_view>

#include "step/step.hpp"

namespace muster::spank {

std::string write_record(const Step& step);

/// tasks: their number on this node.
/// @throws std::runtime_error if the bytes are not what write_record() returns for a step of so many tasks.
Step read_record(std::string_view bytes, std::size_t tasks);

}  // namespace muster::spank
