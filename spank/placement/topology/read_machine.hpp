// SPDX-License-Identifier: Apache-2.0
// Descriptions of public machines: small text files, written by hand from published facts (etc/machines).
#pragma once

#include <string>
#include <vector>

#include "placement/topology/node.hpp"

namespace muster::placement {

struct Machine {
  std::string description;           ///< one line
  std::vector<std::string> sources;  ///< URLs of the published facts
  Node node;                         ///< finished; its first note is the description
};

/// Reads a description; etc/machines/README.md documents the format. Throws Error with file and line.
Machine read_machine(const std::string& path);

}  // namespace muster::placement
