// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster {

/// What a file under /proc says; empty when there is none or its process ended meanwhile, at which a stream
/// would throw.
std::string read_proc_file(const std::string& path);

}  // namespace muster
