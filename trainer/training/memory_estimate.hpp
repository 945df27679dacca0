// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "models/memory_segment.hpp"
#include "training/replica.hpp"

namespace muster {

/// What the program and its libraries take beside the plan, at most: 25 to 33 MiB alone and up to 90 MiB
/// under Open MPI, as resident sets of finished runs show.
inline constexpr std::uint64_t program_bytes = 128u << 20;

/// What `rank` of `ranks` asks for in training, before it has. It follows from the settings alone; the sums
/// of
/// --deterministic's chunks are counted with buckets of 4 MiB.
MemorySegments plan_memory(const Workload& workload, const Replica::Settings& settings, int rank, int ranks);

/// Bytes that the ranks `here`, of `ranks`, need together on their host, the program counted.
std::uint64_t needed_together(const Workload& workload, const Replica::Settings& settings,
                              std::span<const int> here, int ranks);

/// The largest batch up to settings.batch with which they need at most `free` bytes; 0: none, with one sample
/// for each of `ranks`.
int largest_batch(const Workload& workload, Replica::Settings settings, std::span<const int> here, int ranks,
                  std::uint64_t free);

/// "1.5 GiB", "640 MiB".
std::string format_bytes(std::uint64_t bytes);

}  // namespace muster
