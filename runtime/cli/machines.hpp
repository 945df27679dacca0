// SPDX-License-Identifier: Apache-2.0
// The machines that `muster plan --machine` knows: files beside the program, in share/muster/machines.
#pragma once

#include <string>

#include "placement/topology/node.hpp"

namespace muster::cli {

/// A machine by its name.
/// @throws placement::Error that names those that there are.
placement::Node machine_by_name(const std::string& name);

/// One line for each machine: its name and what it is.
/// @throws placement::Error
std::string list_of_machines();

}  // namespace muster::cli
