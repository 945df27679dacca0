// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"

namespace simulator {

/// The rules of docs/failures.md on Job::on_rank_lost(): which ranks call the function, when, and how often.
std::vector<std::string> find_save_violations(const JobResult& result);

}  // namespace simulator
