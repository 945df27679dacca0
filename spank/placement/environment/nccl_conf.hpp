// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "placement/environment/environment.hpp"

namespace muster::placement {

/// The variables that NCCL would read from a file, by the rules of setEnvFile() in its src/misc/param.cc: one
/// NAME=VALUE a line, with white space kept. Lines that begin with # or have no = are skipped. The first line
/// of a name counts. Reads regular files of up to 64 KiB; any other file has no variables.
std::vector<Setting> read_nccl_conf(const std::string& path);

}  // namespace muster::placement
