// SPDX-License-Identifier: Apache-2.0
#include "strategies/memory_estimate.hpp"

#include "models/memory_segment.hpp"

namespace muster {

std::uint64_t estimate_host_memory(const Workload& workload, const StrategySettings& settings,
                                   std::span<const int> host_ranks, int ranks) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < host_ranks.size(); ++i) {
    bytes += program_bytes;
    for (const MemorySegment& segment : estimate_memory(workload, settings, host_ranks[i], ranks))
      if (!segment.is_offloaded && (i == 0 || !segment.is_shared)) bytes += segment.bytes;
  }
  return bytes;
}

std::uint64_t estimate_offloaded_memory(const Workload& workload, const StrategySettings& settings,
                                        std::span<const int> host_ranks, int ranks) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < host_ranks.size(); ++i) {
    for (const MemorySegment& segment : estimate_memory(workload, settings, host_ranks[i], ranks))
      if (segment.is_offloaded && (i == 0 || !segment.is_shared)) bytes += segment.bytes;
  }
  return bytes;
}

int largest_batch(const Workload& workload, StrategySettings settings, std::span<const int> host_ranks,
                  int ranks, std::uint64_t free) {
  const auto fits = [&](int batch) {
    settings.replica.batch = batch;
    return estimate_host_memory(workload, settings, host_ranks, ranks) <= free;
  };
  const int wanted = settings.replica.batch;
  if (fits(wanted)) return wanted;
  if (!fits(ranks)) return 0;
  int good = ranks, bad = wanted;
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

int largest_micro_batch(const Workload& workload, StrategySettings settings, std::span<const int> host_ranks,
                        int ranks, std::uint64_t free) {
  if (settings.replica.chunk > 0) return 0;
  settings.replica.micro_batch = static_cast<int>(Replica::samples_at_once(settings.replica, 0, ranks));
  while (settings.replica.micro_batch > 1) {
    settings.replica.micro_batch /= 2;
    if (estimate_host_memory(workload, settings, host_ranks, ranks) <= free)
      return settings.replica.micro_batch;
  }
  return 0;
}

}  // namespace muster
