// SPDX-License-Identifier: Apache-2.0
// Descriptions of public machines: small text files, made by hand from what is published (etc/machines).
#pragma once

#include <string>
#include <vector>

#include "placement/topology/node.hpp"

namespace muster::placement {

struct Machine {
  std::string description;           ///< one line
  std::vector<std::string> sources;  ///< where the facts are published
  Node node;                         ///< finished; its first note is the description
};

/// Reads a description (etc/machines/README.md has the format). Throws Error with file and line.
Machine read_machine(const std::string& path);

}  // namespace muster::placement
