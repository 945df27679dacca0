// SPDX-License-Identifier: Apache-2.0
#include "strategies/data_parallel/replica_memory.hpp"

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
  if (sharded && !settings.hosts.empty()) {
    // The first rank's part is as large as any.
    const std::size_t arenas = moment_count + (settings.on_device ? 1 : 0);
    segments.push_back({"copy of another rank's moments",
                        arenas * optimizer_part(table.arena_size, 0, ranks).count() * sizeof(float)});
  }
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

}  // namespace muster
