// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "host_list/fold_host_list.hpp"
#include "muster/error.hpp"
#include "strategies/pipeline/divide_layers.hpp"
#include "strategies/pipeline/divide_ranks.hpp"
#include "strategies/pipeline/schedule_replay.hpp"
#include "text/plural.hpp"

namespace muster::pipeline {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::usage, "--strategy=pipeline: " + text);
}

int pipeline_ranks(const Settings& settings, int ranks) {
  return settings.stages > 0 ? settings.stages : ranks;
}

std::uint64_t chunks_of(const Replica::Settings& training) {
  const auto chunk = static_cast<std::uint64_t>(training.chunk);
  return (static_cast<std::uint64_t>(training.batch) + chunk - 1) / chunk;
}

int default_micro_batches(const Settings& settings, int ranks, std::uint64_t samples) {
  const int most = static_cast<int>(std::min<std::uint64_t>(samples, 4 * static_cast<std::uint64_t>(ranks)));
  const bool whole_groups = settings.schedule == ScheduleKind::interleaved_1f1b && most >= ranks;
  return whole_groups ? most / ranks * ranks : most;
}

/// The micro-batches of one pipeline.
std::vector<Share> divide_samples(const Settings& settings, const Replica::Settings& training, int ranks,
                                  int replica, int replicas) {
  const auto batch = static_cast<std::uint64_t>(training.batch),
             chunk = static_cast<std::uint64_t>(training.chunk);
  std::vector<Share> shares;
  if (chunk > 0) {
    const Share chunks = share_of(chunks_of(training), replica, replicas);
    for (std::uint64_t i = chunks.begin; i < chunks.end; ++i)
      shares.push_back({i * chunk, std::min((i + 1) * chunk, batch)});
    return shares;
  }
  const Share all = share_of(batch, replica, replicas);
  // Equally many in each pipeline: batch normalization over the pipelines needs that.
  const std::uint64_t least = batch / static_cast<std::uint64_t>(replicas);
  const int count =
      settings.micro_batches > 0 ? settings.micro_batches : default_micro_batches(settings, ranks, least);
  for (int i = 0; i < count; ++i) {
    const Share part = share_of(all.count(), i, count);
    shares.push_back({all.begin + part.begin, all.begin + part.end});
  }
  return shares;
}

std::uint64_t moment_bytes(const Replica::Settings& training, std::size_t elements, int replica,
                           int replicas) {
  return Optimizer<float>::moment_count(training.optimizer.kind) *
         moment_part(training, elements, replica, replicas).count() * sizeof(float);
}

double seconds_of(const Settings& settings, const Workload& workload, const Plan& plan, int stage,
                  const models::LayerRange& layers) {
  const auto rank = static_cast<std::size_t>(plan.shape.rank_of(stage));
  return stage_seconds(settings.layer_times[rank], layers, workload.layer_kinds());
}

StageCost cost_by(const Settings& settings, const Replica::Settings& training, const Workload& workload,
                  const Plan& plan) {
  if (settings.balance == Balance::flops)
    return [&](int, const models::LayerRange& layers) { return workload.stage_flops(layers); };
  if (settings.balance == Balance::parameters) {
    return [&](int, const models::LayerRange& layers) {
      return static_cast<double>(workload.stage_table(layers).table.parameter_count);
    };
  }
  if (settings.balance == Balance::time && !settings.layer_times.empty()) {
    return [&](int stage, const models::LayerRange& layers) {
      return seconds_of(settings, workload, plan, stage, layers);
    };
  }
  return [&](int stage, const models::LayerRange& layers) {
    const OperationList list = make_operations(plan.shape, plan.shape.rank_of(stage));
    const StageSettings of{layers, std::max(most_in_flight(list, stage), 1),
                           most_weights_put_off(list, stage), plan.max_samples, Replica::extra_scalars};
    return static_cast<double>(
        total_bytes(workload.stage_memory(of, training.real_bytes)) +
        moment_bytes(training, workload.stage_table(layers).table.trained_size, 0, plan.replicas));
  };
}

/// The ranks of a stage, one of each pipeline, and the hosts that they are on.
std::pair<std::string, std::string> describe_ranks(const Plan& plan, int stage,
                                                   const std::vector<std::string>& host_names) {
  std::vector<int> ranks;
  std::vector<std::string> hosts;
  for (int replica = 0; replica < plan.replicas; ++replica) {
    ranks.push_back(plan.world_rank(stage, replica));
    hosts.push_back(host_names[static_cast<std::size_t>(ranks.back())]);
  }
  return {fold_numbers(std::move(ranks)), fold_host_list(hosts)};
}

void find_place(Plan& plan, int rank) {
  for (std::size_t replica = 0; replica < plan.world_ranks.size(); ++replica) {
    const std::vector<int>& ranks = plan.world_ranks[replica];
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found == ranks.end()) continue;
    plan.replica = static_cast<int>(replica);
    plan.rank = static_cast<int>(found - ranks.begin());
  }
}

}  // namespace

Share moment_part(const Replica::Settings& training, std::size_t elements, int replica, int replicas) {
  return shards_optimizer(training, replicas) ? optimizer_part(elements, replica, replicas)
                                              : Share{0, elements};
}

std::vector<int> Plan::local_stages() const {
  std::vector<int> local;
  for (int stage = rank; stage < shape.stages(); stage += shape.ranks) local.push_back(stage);
  return local;
}

StageSettings Plan::stage_settings(int stage) const {
  return {stages[static_cast<std::size_t>(stage)], std::max(most_in_flight(operations, stage), 1),
          most_weights_put_off(operations, stage), max_samples, Replica::extra_scalars};
}

std::size_t Plan::table_copies(int stage, const StageTable& table) const {
  if (!table.has_copied_table || !reduces_micro_batches) return 0;
  return static_cast<std::size_t>(std::min({shape.ranks, shape.micro_batches, stage + 1}));
}

Plan make_plan(const Settings& settings, const Replica::Settings& training, const Workload& workload,
               int rank, int ranks) {
  Plan plan;
  const int length = std::min(pipeline_ranks(settings, ranks), ranks);
  plan.replicas = std::max(ranks / length, 1);
  const std::vector<int> one_host(static_cast<std::size_t>(ranks));
  plan.world_ranks = divide_ranks(settings.hosts.empty() ? one_host : settings.hosts, length);
  find_place(plan, rank);
  plan.micro_batches = divide_samples(settings, training, length, plan.replica, plan.replicas);
  plan.shape = {settings.schedule, length, static_cast<int>(plan.micro_batches.size()),
                settings.virtual_stages};
  plan.operations = make_operations(plan.shape, plan.rank);
  for (const Share& samples : plan.micro_batches)
    plan.max_samples = std::max(plan.max_samples, samples.count());
  if (training.chunk > 0) plan.max_samples = static_cast<std::uint64_t>(training.chunk);
  plan.reduces_micro_batches = training.chunk > 0;
  plan.stages =
      divide_layers(workload.layer_kinds(), plan.shape.stages(), cost_by(settings, training, workload, plan));
  return plan;
}

MeasuredLayers layers_to_measure(const Plan& plan, const Replica::Settings& training) {
  const bool is_last = plan.rank == plan.shape.rank_of(plan.shape.stages() - 1);
  return {plan.rank == 0, is_last, plan.max_samples, training.seed};
}

void check_plan(const Settings& settings, const Replica::Settings& training, const Workload& workload,
                int ranks) {
  const int length = pipeline_ranks(settings, ranks), stages = length * settings.virtual_stages;
  if (length < 2) refuse("one stage is no pipeline: start more ranks, or leave it out");
  if (ranks % length != 0) {
    refuse(fmt::format("{} {} no multiple of --stages {}", plural(ranks, "rank"), ranks == 1 ? "is" : "are",
                       length));
  }
  if (stages > workload.layers()) {
    refuse(fmt::format("{} for {}: give --stages{} that the {}s suffice for",
                       plural(workload.layers(), workload.layer_name()), plural(stages, "stage"),
                       settings.virtual_stages > 1 ? " and --virtual-stages" : "", workload.layer_name()));
  }
  const int replicas = ranks / length;
  const std::string of_chunks = training.chunk > 0 ? ", each a --chunk of --batch" : "";
  for (int replica = 0; replica < replicas; ++replica) {
    const auto shares = divide_samples(settings, training, length, replica, replicas);
    const int count = static_cast<int>(shares.size());
    if (count == 0 ||
        std::any_of(shares.begin(), shares.end(), [](const Share& s) { return s.count() == 0; })) {
      refuse(fmt::format("--batch {} is too small for {} micro-batches in each of {}{}", training.batch,
                         std::max(count, length), plural(replicas, "pipeline"), of_chunks));
    }
    const ScheduleShape shape{settings.schedule, length, count, settings.virtual_stages};
    if (const std::string problem = schedule_problem(shape); !problem.empty()) refuse(problem + of_chunks);
    if (const std::string problem = replay_schedule(make_schedule(shape)).deadlock; !problem.empty())
      refuse(problem);
  }
}

MemorySegments estimate_memory(const Settings& settings, const Replica::Settings& training,
                               const Workload& workload, int rank, int ranks) {
  const Plan plan = make_plan(settings, training, workload, rank, ranks);
  MemorySegments segments;
  const auto add = [&](const MemorySegment& segment) {
    if (segment.bytes == 0) return;
    const auto same = std::find_if(segments.begin(), segments.end(),
                                   [&](const MemorySegment& other) { return other.name == segment.name; });
    if (same == segments.end())
      segments.push_back(segment);
    else
      same->bytes += segment.bytes;
  };
  for (const int stage : plan.local_stages()) {
    const StageSettings of = plan.stage_settings(stage);
    for (const MemorySegment& segment : workload.stage_memory(of, training.real_bytes)) add(segment);
    const StageTable table = workload.stage_table(of.layers);
    add({"moments", moment_bytes(training, table.table.trained_size, plan.replica, plan.replicas)});
    if (training.chunk == 0 && plan.micro_batches.size() > 1)
      add({"sums of micro-batches", table.table.arena_size * sizeof(float)});
    if (training.chunk > 0) {
      ReducerOptions options = Replica::reducer_options(training);
      if (options.bucket_bytes == 0) options.bucket_bytes = 4u << 20;
      std::vector<std::size_t> sizes = table.table.trained_ends();
      for (std::size_t i = sizes.size(); i-- > 1;) sizes[i] -= sizes[i - 1];
      add({"sums of chunks", Reducer::memory_bytes(sizes, options, plan.replica, plan.replicas)});
    }
    if (table.has_copied_table) {
      add({"gradients to send", plan.table_copies(stage, table) *
                                    (table.table.arena_size - table.table.trained_size) * sizeof(float)});
    }
  }
  const std::size_t arenas = 1 + Optimizer<float>::moment_count(training.optimizer.kind);
  // With a device, this copy is in the host's memory and not counted.
  if (rank == 0 && !training.on_device)
    add({"copy for checkpoints", arenas * workload.table().arena_size * sizeof(float)});
  return segments;
}

std::string describe_plan(const Settings& settings, const Replica::Settings& training,
                          const Workload& workload, const std::vector<std::string>& host_names) {
  const int ranks = static_cast<int>(host_names.size());
  const Plan plan = make_plan(settings, training, workload, 0, ranks);
  double all_flops = 0;
  for (const models::LayerRange& layers : plan.stages) all_flops += workload.stage_flops(layers);
  std::string text =
      fmt::format("pipeline: {} of {} ranks, {}, {} micro-batches; idle share of equal stages {:.1f}%\n",
                  plural(plan.replicas, "pipeline"), plan.shape.ranks, to_string(plan.shape.kind),
                  plan.shape.micro_batches, 100 * idle_share_formula(plan.shape));
  const bool has_times = !settings.layer_times.empty();
  text += fmt::format("{:>7} {:>9} {:>9} {:>12} {:>7}{} {:>14} {:>12}  {}\n", "stage", "ranks",
                      fmt::format("{}s", workload.layer_name()), "parameters", "FLOPs",
                      has_times ? "      measured" : "", "in flight", "activations", "hosts");
  for (int stage = 0; stage < plan.shape.stages(); ++stage) {
    const auto& layers = plan.stages[static_cast<std::size_t>(stage)];
    const Plan own = make_plan(settings, training, workload, plan.world_rank(stage, 0), ranks);
    const StageSettings of = own.stage_settings(stage);
    std::uint64_t activations = 0;
    for (const MemorySegment& segment : workload.stage_memory(of, training.real_bytes))
      activations += segment.is_activation ? segment.bytes : 0;
    const auto [of_stage, hosts] = describe_ranks(plan, stage, host_names);
    text += fmt::format(
        "{:>7} {:>9} {:>9} {:>12} {:>6.1f}%{} {:>14} {:>8.1f} MiB  {}\n", stage, of_stage,
        layers.count() == 1 ? std::to_string(layers.first)
                            : fmt::format("{}-{}", layers.first, layers.last - 1),
        workload.stage_table(layers).table.parameter_count, 100 * workload.stage_flops(layers) / all_flops,
        has_times ? fmt::format(" {:>10.2f} ms", 1e3 * seconds_of(settings, workload, plan, stage, layers))
                  : "",
        fmt::format("{} of {}", of.slots, own.shape.micro_batches),
        static_cast<double>(activations) / (1 << 20), hosts);
  }
  return text;
}

}  // namespace muster::pipeline
