// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "job/job_state.hpp"

namespace muster::detail {

/// Job::join(): from a single process to a rank of a job. With `collects_findings` mismatches between ranks
/// are kept in the state's findings and do not end the join.
/// @throws Error, as Job::join() does.
std::unique_ptr<JobState> join(const JoinOptions& options, bool collects_findings);

}  // namespace muster::detail
