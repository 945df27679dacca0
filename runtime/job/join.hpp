// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "job/job_state.hpp"

namespace muster::detail {

/// Job::join(): from a single process to a rank of a job. With `collects_findings` mismatches between ranks
/// are kept in the state's findings and do not end the join.
/// `invitation`: of a job that grows; empty to find the job that the launcher started.
/// @throws Error, as Job::join() does.
std::unique_ptr<JobState> join(const JoinOptions& options, bool collects_findings,
                               const std::string& invitation = {});

/// Rank 0 logs what is a warning only.
/// @throws Error, the same on every rank, when the ranks of `records` cannot be one job. `rank`: this one.
void require_matching_records(const std::vector<bootstrap::JoinRecord>& records, int cpu_ranks, int rank);

}  // namespace muster::detail
