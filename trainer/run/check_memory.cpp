// SPDX-License-Identifier: Apache-2.0
// Checks that a run fits into its hosts' memory before it allocates.
#include <fmt/format.h>

#include <algorithm>

#include "run/run.hpp"
#include "text/plural.hpp"
#include "training/memory_estimate.hpp"

namespace muster {
namespace {

/// The ranks on the same kernel as `rank`, which share its memory.
std::vector<int> ranks_on_host(const std::vector<Hello>& roster, int rank) {
  const Hello& self = roster[static_cast<std::size_t>(rank)];
  std::vector<int> host_ranks;
  for (const Hello& hello : roster) {
    if (hello.host == self.host && hello.boot_id == self.boot_id) host_ranks.push_back(hello.rank);
  }
  return host_ranks;
}

/// Advice for when not even one sample per rank fits.
std::string describe_remedy(const Options& options) {
  std::string out = "use a smaller model";
  if (options.deterministic && options.chunk > 1) out += ", a smaller --chunk";
  if (!options.shard_optimizer) out += ", --shard-optimizer";
  return out + " or more hosts";
}

}  // namespace

Replica::Settings Run::replica_settings() const {
  return {options_.adamw,
          options_.batch,
          options_.seed,
          options_.deterministic ? options_.chunk : 0,
          options_.shard_optimizer,
          options_.dtype == "bf16" ? sizeof(bfloat16) : sizeof(float),
          job_.on_gpu()};
}

void Run::check_memory() {
  const auto settings = replica_settings();
  const int ranks = world_.size();
  const bool on_gpu = gpu_.compute != nullptr;
  const std::vector<int> host_ranks =
      on_gpu ? std::vector<int>{world_.rank()} : ranks_on_host(job_.roster(), world_.rank());
  free_memory_ = on_gpu ? FreeMemory{gpu_.free_bytes, "free on its GPU"} : free_memory();
  const int mine = largest_batch(*workload_, settings, host_ranks, ranks, free_memory_.bytes);
  const auto all = collective_errors_.gather(static_cast<std::uint64_t>(mine));
  const std::uint64_t largest = *std::min_element(all.begin(), all.end());
  collective_errors_.run_on_all([&] {
    if (mine == settings.batch) return;
    const std::uint64_t needed = estimate_host_memory(*workload_, settings, host_ranks, ranks);
    const std::string what =
        fmt::format("--batch {} needs {} of memory for {} on {}, and {} is {}", settings.batch,
                    format_bytes(needed), plural(static_cast<std::int64_t>(host_ranks.size()), "rank"),
                    job_.roster()[static_cast<std::size_t>(world_.rank())].host,
                    format_bytes(free_memory_.bytes), free_memory_.where);
    if (largest == 0)
      throw Error(ErrorCode::usage, fmt::format("{}: no batch fits: {}", what, describe_remedy(options_)));
    auto in_chunks = settings;
    in_chunks.chunk = options_.chunk;
    const bool fits_in_chunks =
        largest_batch(*workload_, in_chunks, host_ranks, ranks, free_memory_.bytes) == settings.batch;
    throw Error(
        ErrorCode::usage,
        fmt::format("{}: the largest that fits is --batch {}, {} a rank{}", what, largest,
                    plural(static_cast<std::int64_t>(largest) / ranks, "sample"),
                    fits_in_chunks ? ", or this one with --deterministic, which computes in chunks" : ""));
  });
}

void Run::print_memory_estimate() const {
  const auto segments = estimate_memory(*workload_, replica_settings(), 0, world_.size());
  std::uint64_t activations = 0;
  std::string parts;
  for (const MemorySegment& segment : segments) {
    if (segment.is_activation)
      activations += segment.bytes;
    else
      parts += fmt::format("{} {}, ", segment.name, format_bytes(segment.bytes));
  }
  parts += fmt::format("activations {}", format_bytes(activations));
  fmt::print("memory {} on rank 0 ({}); {} {}\n", format_bytes(total_bytes(segments)), parts,
             format_bytes(free_memory_.bytes), free_memory_.where);
}

}  // namespace muster
