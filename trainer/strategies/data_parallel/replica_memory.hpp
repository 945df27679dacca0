// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/memory_segment.hpp"
#include "strategies/data_parallel/replica.hpp"

namespace muster {

/// The memory that `rank` of `ranks` allocates for training, computed from the settings before it allocates.
/// The sums of --deterministic's chunks are counted with buckets of 4 MiB.
MemorySegments estimate_memory(const Workload& workload, const Replica::Settings& settings, int rank,
                               int ranks);

}  // namespace muster
