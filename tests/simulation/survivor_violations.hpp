// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "job.hpp"

namespace simulator {

/// The rules for a job that goes on after a loss.
std::vector<std::string> find_survivor_violations(const JobResult& result);

}  // namespace simulator
