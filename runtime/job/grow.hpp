// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "job/job_state.hpp"

namespace muster::detail {

/// Job::grow(). Collective over the job.
/// @throws Error, as Job::grow() does.
void grow(JobState& state, int count,
          const std::function<void(const std::vector<std::string>& invitations)>& invite,
          std::chrono::milliseconds wait);

}  // namespace muster::detail
