// SPDX-License-Identifier: Apache-2.0
#include "run/check_memory.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <numeric>

#include "config/elastic_range.hpp"
#include "machine/threads.hpp"
#include "report/format_bytes.hpp"
#include "run/open_gpu.hpp"
#include "strategies/memory_estimate.hpp"
#include "text/plural.hpp"

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

/// What StateCopy needs on `ranks` ranks of a host.
std::uint64_t state_copy_bytes(const Workload& workload, const StrategySettings& settings,
                               std::size_t ranks) {
  const bool outer_momentum = settings.local_sgd && settings.local_sgd->outer.nesterov;
  const std::size_t arenas =
      1 + Optimizer<float>::moment_count(settings.replica.optimizer.kind) + (outer_momentum ? 1 : 0);
  return ranks * arenas * workload.table().arena_size * sizeof(float);
}

void reserve_state_copies(std::uint64_t copies, FreeMemory& free) {
  free.bytes -= std::min(copies, free.bytes);
  free.where += fmt::format(" beside {} for the copies of --elastic", format_bytes(copies));
}

/// Refuses a run whose ranks with GPUs need more memory of their host than it has.
void check_offloaded_memory(const Workload& workload, const StrategySettings& settings, const Job& job,
                            CollectiveErrors& errors) {
  errors.run_on_all([&] {
    const std::vector<int> host_ranks = ranks_on_host(job.roster(), job.rank());
    const std::uint64_t needed = estimate_offloaded_memory(workload, settings, host_ranks, job.size());
    const FreeMemory free = free_memory();
    if (needed <= free.bytes) return;
    throw Error(
        ErrorCode::usage,
        fmt::format("the parameters and gradients of {} on {} need {} of its memory, and {} is {}: use "
                    "a smaller model, fewer ranks a host or --strategy=data-parallel",
                    plural(static_cast<std::int64_t>(host_ranks.size()), "rank"),
                    job.roster()[static_cast<std::size_t>(job.rank())].host, format_bytes(needed),
                    format_bytes(free.bytes), free.where));
  });
}

/// Refuses a run that a limit of its address space would end later. Own allocations would fail with a line,
/// but OpenMP and oneDNN's generator of kernels end the process without one.
void check_address_space(const Options& options, const Workload& workload, const StrategySettings& settings,
                         const Job& job, int ranks, CollectiveErrors& errors) {
  constexpr std::uint64_t for_libraries = 64 << 20, stack = 8 << 20, arena = 64 << 20;
  errors.run_on_all([&] {
    const auto space = find_address_space_limit();
    if (!space) return;
    const auto threads =
        static_cast<std::uint64_t>(choose_threads(options.threads, job.roster(), job.rank()));
    std::uint64_t needed = for_libraries + threads * stack;
    const int rank = std::min(job.rank(), ranks - 1);  // a spare takes the place of any
    for (const auto& segment : estimate_memory(workload, settings, rank, ranks)) needed += segment.bytes;
    if (space->used + needed > space->bytes) {
      throw Error(ErrorCode::system,
                  fmt::format("the address space of a process is limited to {} (ulimit -v), {} of it are in "
                              "use, and {} more are needed: raise the limit",
                              format_bytes(space->bytes), format_bytes(space->used), format_bytes(needed)));
    }
    // malloc() would take address space for each thread that it does not need.
    if (space->used + needed + threads * arena > space->bytes) ::mallopt(M_ARENA_MAX, 1);
  });
}

/// Advice for when not even one sample per rank fits.
std::string describe_remedy(const Options& options, int ranks) {
  std::string out = "use a smaller model";
  if (options.deterministic && options.chunk > 1) out += ", a smaller --chunk";
  if (ranks > 1 && !options.shard_optimizer && options.strategy == "data-parallel")
    out += ", --shard-optimizer";
  if (!options.recompute && models::gpt_preset(options.model_name)) out += ", --recompute";
  return out + " or more hosts";
}

}  // namespace

FreeMemory check_memory(const Options& options, const Workload& workload, const StrategySettings& settings,
                        const Job& job, int active_ranks, const compute::cuda::OpenedGpu& gpu,
                        CollectiveErrors& errors) {
  const bool on_gpu = computes_on_gpus(job);
  if (on_gpu)
    check_offloaded_memory(workload, settings, job, errors);
  else
    check_address_space(options, workload, settings, job, active_ranks, errors);
  // A rank that only serves others has nothing but memory of its host, which is checked.
  std::vector<int> host_ranks =
      on_gpu ? std::vector<int>{job.rank()} : ranks_on_host(job.roster(), job.rank());
  FreeMemory free = gpu.compute ? FreeMemory{gpu.free_bytes, "free on its GPU"} : free_memory();
  int ranks = active_ranks;
  if (const int least = elastic_range(options).least; least > 0) {
    // The most for this host: its ranks stay, spares too, and as few others as possible.
    host_ranks.resize(std::min(host_ranks.size(), static_cast<std::size_t>(active_ranks)));
    ranks = std::max(least, static_cast<int>(host_ranks.size()));
    std::iota(host_ranks.begin(), host_ranks.end(), 0);
    if (!on_gpu) reserve_state_copies(state_copy_bytes(workload, settings, host_ranks.size()), free);
  }
  const int mine = largest_batch(workload, settings, host_ranks, ranks, free.bytes);
  const auto all = errors.gather(static_cast<std::uint64_t>(mine));
  const std::uint64_t largest = *std::min_element(all.begin(), all.end());
  errors.run_on_all([&] {
    if (mine == settings.replica.batch) return;
    const std::uint64_t needed = estimate_host_memory(workload, settings, host_ranks, ranks);
    const std::string what = fmt::format(
        "--batch {} needs {} of memory for {} on {}, and {} is {}", settings.replica.batch,
        format_bytes(needed), plural(static_cast<std::int64_t>(host_ranks.size()), "rank"),
        job.roster()[static_cast<std::size_t>(job.rank())].host, format_bytes(free.bytes), free.where);
    if (largest == 0)
      throw Error(ErrorCode::usage,
                  fmt::format("{}: no batch fits: {}", what, describe_remedy(options, ranks)));
    const int micro_batch = largest_micro_batch(workload, settings, host_ranks, ranks, free.bytes);
    throw Error(
        ErrorCode::usage,
        fmt::format("{}: the largest that fits is --batch {}, {} a rank{}", what, largest,
                    plural(static_cast<std::int64_t>(largest) / ranks, "sample"),
                    micro_batch > 0 ? fmt::format(", or this one with --micro-batch {}", micro_batch) : ""));
  });
  return free;
}

std::uint64_t estimate_joining_memory(const Options& options, const Workload& workload,
                                      const StrategySettings& settings, const Job& job, int processes) {
  if (computes_on_gpus(job)) return 0;
  const auto [least, most] = elastic_range(options);
  std::vector<int> ranks(static_cast<std::size_t>(std::min(processes, std::min(most, options.batch))));
  std::iota(ranks.begin(), ranks.end(), 0);
  return estimate_host_memory(workload, settings, ranks, std::max(least, static_cast<int>(ranks.size()))) +
         state_copy_bytes(workload, settings, ranks.size());
}

}  // namespace muster
