// SPDX-License-Identifier: Apache-2.0
// The machines of `muster plan --machine`: files in share/muster/machines of the program's prefix.
#pragma once

#include <string>

#include "placement/topology/node.hpp"

namespace muster::cli {

/// A machine by its name.
/// @throws placement::Error with the names of all machines.
placement::Node find_machine(const std::string& name);

/// One line for each machine: its name and description.
/// @throws placement::Error
std::string list_machines();

}  // namespace muster::cli
