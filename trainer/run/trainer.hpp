// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/options.hpp"
#include "muster/job.hpp"

namespace muster {

/// Runs the training on every rank of the job. Returns the exit code: 0, also when a batch system's signal
/// stopped the run (the status file says so, run_status.hpp), or 128 + SIGINT.
/// @throws CollectiveAbort when all ranks have agreed to end and the reason is printed, muster::Error when a
/// collective operation failed.
int train(const Options& options, Job& job);

}  // namespace muster
