// SPDX-License-Identifier: Apache-2.0
#include "training/memory_estimate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster {

MemorySegments estimate_memory(const Workload& workload, const Replica::Settings& settings, int rank,
                               int ranks) {
  MemorySegments segments = workload.memory(Replica::samples_at_once(settings, rank, ranks),
                                            Replica::extra_scalars, settings.real_bytes);
  const models::TensorTable table = workload.table();
  const bool sharded = settings.shard_optimizer && ranks > 1;
  const std::uint64_t moments =
      sharded ? optimizer_part(table.arena_size, rank, ranks).count() : table.arena_size;
  const std::size_t moment_count = Optimizer<float>::moment_count(settings.optimizer.kind);
  segments.push_back({"moments", moment_count * moments * sizeof(float)});
  if (Replica::micro_batches(settings, rank, ranks) > 1)
    segments.push_back({"sums of micro-batches", table.arena_size * sizeof(float)});
  if (settings.chunk > 0) {
    ReducerOptions options = Replica::reducer_options(settings);
    if (options.bucket_bytes == 0) options.bucket_bytes = 4u << 20;
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < table.tensors.size(); ++i) {
      const std::size_t next = i + 1 < table.tensors.size() ? table.tensors[i + 1].offset : table.arena_size;
      sizes.push_back(next - table.tensors[i].offset);
    }
    segments.push_back({"sums of chunks", Reducer::memory_bytes(sizes, options, rank, ranks)});
  }
  // With a device, this copy is in the host's memory and not counted.
  if (rank == 0 && !settings.on_device)
    segments.push_back({"copy for checkpoints", (1 + moment_count) * table.arena_size * sizeof(float)});
  return segments;
}

std::uint64_t estimate_host_memory(const Workload& workload, const Replica::Settings& settings,
                                   std::span<const int> host_ranks, int ranks) {
  std::uint64_t bytes = 0;
  for (const int rank : host_ranks)
    bytes += program_bytes + total_bytes(estimate_memory(workload, settings, rank, ranks));
  return bytes;
}

int largest_batch(const Workload& workload, Replica::Settings settings, std::span<const int> host_ranks,
                  int ranks, std::uint64_t free) {
  const auto fits = [&](int batch) {
    settings.batch = batch;
    return estimate_host_memory(workload, settings, host_ranks, ranks) <= free;
  };
  const int wanted = settings.batch;
  if (fits(wanted)) return wanted;
  if (!fits(ranks)) return 0;
  int good = ranks, bad = wanted;
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

int largest_micro_batch(const Workload& workload, Replica::Settings settings, std::span<const int> host_ranks,
                        int ranks, std::uint64_t free) {
  if (settings.chunk > 0) return 0;
  settings.micro_batch = static_cast<int>(Replica::samples_at_once(settings, 0, ranks));
  while (settings.micro_batch > 1) {
    settings.micro_batch /= 2;
    if (estimate_host_memory(workload, settings, host_ranks, ranks) <= free) return settings.micro_batch;
  }
  return 0;
}

std::string format_bytes(std::uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  if (mib >= 1024) return fmt::format("{:.1f} GiB", mib / 1024);
  return fmt::format("{:.{}f} MiB", mib, mib < 10 ? 1 : 0);
}

}  // namespace muster
