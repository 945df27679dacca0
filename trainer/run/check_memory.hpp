// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "compute/cuda/open_device.hpp"
#include "config/options.hpp"
#include "machine/host_memory.hpp"
#include "strategies/make_strategy.hpp"
#include "training/collective_errors.hpp"

namespace muster {

/// Checks on every rank that the run fits into its host's memory, or into `gpu` when it was opened, and into
/// what a limit leaves of its address space. `active_ranks`: the number of ranks that train. Collective.
/// @returns the memory that is free before the run allocates.
/// @throws CollectiveAbort after an error, with the largest batch that fits into the memory.
FreeMemory check_memory(const Options& options, const Workload& workload, const StrategySettings& settings,
                        const Job& job, int active_ranks, const compute::cuda::OpenedGpu& gpu,
                        CollectiveErrors& errors);

/// Bytes that so many processes of one host, which join an elastic run, need there together at most; 0 when
/// they compute on GPUs.
std::uint64_t estimate_joining_memory(const Options& options, const Workload& workload,
                                      const StrategySettings& settings, const Job& job, int processes);

}  // namespace muster
