// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::placement {

/// The text of a topology file. Throws Error if it cannot be read, is not a regular file or exceeds 64 MiB.
std::string read_xml_text(const std::string& path);

}  // namespace muster::placement
