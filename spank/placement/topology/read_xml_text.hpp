// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::placement {

/// The whole of a topology file. Throws Error if it is no regular file, cannot be read or is absurdly large.
std::string read_xml_text(const std::string& path);

}  // namespace muster::placement
