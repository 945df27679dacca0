// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/compute.hpp"
#include "config/options.hpp"
#include "muster/job.hpp"
#include "strategies/make_strategy.hpp"
#include "training/collective_errors.hpp"
#include "training/workload.hpp"

namespace muster {

/// With --balance=time, measures the layers on all ranks at the same time and writes the times to the
/// pipeline's settings, the same on all ranks. `gpu`: this rank's, or null; then its CPUs are measured. Needs
/// less memory than the pipeline itself. Collective.
/// @returns whether it did.
/// @throws CollectiveAbort when it fails and the error is printed.
bool measure_pipeline(const Options& options, Job& job, const Workload& workload,
                      compute::Compute<bfloat16>* gpu, StrategySettings& settings, CollectiveErrors& errors);

}  // namespace muster
