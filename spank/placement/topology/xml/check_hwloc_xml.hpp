// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::placement {

/// Throws Error, which names the path, unless the text is an hwloc XML file that hwloc can load safely. hwloc
/// 2.9 crashes on a file that lacks a set, and on XML entities, which no export has. Also refuses formats
/// newer than `newest_version`.
void check_hwloc_xml(const std::string& path, const std::string& text, int newest_version);

}  // namespace muster::placement
