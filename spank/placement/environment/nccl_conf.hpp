// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "placement/environment/environment.hpp"

namespace muster::placement {

/// The variables that NCCL would take from a file, as setEnvFile() of its src/misc/param.cc reads it: one
/// NAME=VALUE a line without any white space removed, lines that begin with # or have no = passed over, the
/// first of a name counting. Reads regular files of up to 64 KiB; one that is not there or not readable has
/// no variables.
std::vector<Setting> read_nccl_conf(const std::string& path);

}  // namespace muster::placement
