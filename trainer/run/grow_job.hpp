// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "muster/muster.hpp"
#include "report/progress.hpp"
#include "run/active_ranks.hpp"
#include "run/join_folder.hpp"

namespace muster {

/// Takes the processes that wait in `folder` into the job; `folder` is null on all ranks but rank 0. False,
/// after a warning, when they do not all come in time: the job goes on as before. Collective over the job.
/// @throws muster::Error(ErrorCode::lost_rank) when a rank of the job is lost.
bool grow_job(Job& job, const ActiveRanks& ranks, JoinFolder* folder, Progress& progress);

}  // namespace muster
