// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "job/job_state.hpp"

namespace muster::detail {

/// Job::shrink(): the remaining ranks become a smaller job after a loss. Collective over them.
/// @throws Error, as Job::shrink() does.
void shrink(JobState& state, std::chrono::milliseconds wait);

}  // namespace muster::detail
