// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "strategies/make_strategy.hpp"

namespace muster {

/// Upper bound of what the program and its libraries need beside the estimate. Measured resident sets of
/// finished runs: 25 to 33 MiB for one process, up to 90 MiB under Open MPI.
inline constexpr std::uint64_t program_bytes = 128u << 20;

/// Bytes that these ranks of one host need together where they compute, including the program. `ranks`: size
/// of the job.
std::uint64_t estimate_host_memory(const Workload& workload, const StrategySettings& settings,
                                   std::span<const int> host_ranks, int ranks);

/// Bytes that ranks with GPUs need together in the memory of their host.
std::uint64_t estimate_offloaded_memory(const Workload& workload, const StrategySettings& settings,
                                        std::span<const int> host_ranks, int ranks);

/// The largest batch up to settings.replica.batch for which these ranks of one host need at most `free`
/// bytes. 0: not even one sample for each of `ranks` fits.
int largest_batch(const Workload& workload, StrategySettings settings, std::span<const int> host_ranks,
                  int ranks, std::uint64_t free);

/// A micro-batch with which settings.replica.batch fits, as largest_batch(): the rank's samples halved as
/// often as it takes. 0: there is none, or the samples are computed in chunks.
int largest_micro_batch(const Workload& workload, StrategySettings settings, std::span<const int> host_ranks,
                        int ranks, std::uint64_t free);

}  // namespace muster
