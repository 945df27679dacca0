// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::placement {

/// Throws Error, which names path, unless the text is an hwloc XML file that hwloc survives: hwloc 2.9
/// crashes on a damaged one that lacks a set, and on entities, which no export has. Also refuses formats
/// newer than `newest_version`.
void check_hwloc_xml(const std::string& path, const std::string& text, int newest_version);

}  // namespace muster::placement
