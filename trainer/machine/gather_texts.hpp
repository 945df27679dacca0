// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/communicator.hpp"

namespace muster {

/// Every rank's text, indexed by rank. Collective.
std::vector<std::string> gather_texts(Communicator& world, const std::string& mine);
/// The same for lists of lines, none of which is empty or has a line break.
std::vector<std::vector<std::string>> gather_lines(Communicator& world, const std::vector<std::string>& mine);

}  // namespace muster
