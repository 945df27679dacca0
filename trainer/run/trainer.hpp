// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/options.hpp"
#include "muster/job.hpp"

namespace muster {

/// The whole training run, on every rank of the job. Returns the exit code: 0, also when a batch system's
/// signal stopped it (the status file tells, run_status.hpp), or 128 + SIGINT.
/// @throws EndedTogether when all ranks have agreed to end and said why, muster::Error when a collective
/// operation failed.
int train(const Options& options, Job& job);

}  // namespace muster
