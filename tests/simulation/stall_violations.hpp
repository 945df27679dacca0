// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"

namespace simulator {

/// The rules of docs/failures.md on stall warnings: each is true, each stall has its own, and none is
/// missing.
std::vector<std::string> find_stall_violations(const JobResult& result);

}  // namespace simulator
