// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "job.hpp"

namespace simulator {

/// A loss came while the ranks learned that the job grows, and some have not learned it: the documented
/// limit.
bool has_split(const JobResult& result);

/// What a job that grew, or tried to, should not have done in its growth.
std::vector<std::string> find_growth_violations(const JobResult& result);

}  // namespace simulator
