// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster {

/// The content of a file under /proc. Empty when there is no such file or its process has just ended, where a
/// stream would throw.
std::string read_proc_file(const std::string& path);

}  // namespace muster
