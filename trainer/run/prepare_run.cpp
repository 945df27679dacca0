// SPDX-License-Identifier: Apache-2.0
#include "run/prepare_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compute/cpu/cpu_compute.hpp"
#include "config/elastic_range.hpp"
#include "config/settings.hpp"
#include "config/strategy_settings.hpp"
#include "files/hash.hpp"
#include "machine/gather_texts.hpp"
#include "machine/host_memory.hpp"
#include "machine/measure_peak_flops.hpp"
#include "machine/threads.hpp"
#include "models/named_network.hpp"
#include "run/check_memory.hpp"
#include "run/measure_pipeline.hpp"
#include "run/open_gpu.hpp"
#include "strategies/make_strategy.hpp"
#include "text/plural.hpp"

namespace muster {
namespace {

/// A hash of the model and of the settings that must be equal on all ranks. Paths and settings of one machine
/// may differ.
std::uint64_t hash_shared_settings(const Options& options, const Workload& workload) {
  static const std::set<std::string> own{"data",      "validation-data", "output", "status",
                                         "log-every", "init-from",       "join"};
  std::string text = workload.model_text() + '\n';
  for (const Setting& setting : list_settings(options)) {
    if (setting.group != "Machine" && !own.contains(setting.name))
      text += fmt::format("{}={}\n", setting.name, setting.value);
  }
  return hash_bytes(text.data(), text.size());
}

Replica::Settings replica_settings(const Options& options, bool on_device) {
  return {.optimizer = options.optimizer,
          .batch = options.batch,
          .seed = options.seed,
          .chunk = options.deterministic ? options.chunk : 0,
          .shard_optimizer = options.shard_optimizer,
          .real_bytes = options.dtype == "bf16" ? sizeof(bfloat16) : sizeof(float),
          .on_device = on_device,
          .micro_batch = options.micro_batch,
          .label_smoothing = options.label_smoothing,
          .sync_batch_norm = options.sync_batch_norm,
          .update_after_reduction = elastic_range(options).least > 0};
}

pipeline::Settings pipeline_settings(const Options& options) {
  static const std::map<std::string, pipeline::Balance> balances{
      {"flops", pipeline::Balance::flops},
      {"parameters", pipeline::Balance::parameters},
      {"memory", pipeline::Balance::memory},
      {"time", pipeline::Balance::time}};
  return {*pipeline::parse_schedule_kind(options.pipeline_schedule),
          options.stages,
          options.micro_batches,
          options.virtual_stages,
          balances.at(options.balance),
          {},
          {}};
}

std::vector<std::string> host_names(const Job& job) {
  std::vector<std::string> names;
  for (const Hello& hello : job.roster()) names.push_back(hello.host);
  return names;
}

StrategySettings strategy_settings(const Options& options, Job& job, const ActiveRanks& ranks) {
  const bool on_host = offloads_tensors(options) && computes_on_gpus(job);
  StrategySettings settings(replica_settings(options, job.on_gpu() && !on_host));
  if (elastic_range(options).least > 0) settings.replica.hosts = ranks.hosts();
  const int threads = on_host ? choose_threads(options.threads, job.roster(), job.rank()) : 0;
  if (options.strategy == "central-storage") {
    settings.central_storage = {job.host_index(), job.roster()[static_cast<std::size_t>(job.rank())].host,
                                threads};
  } else if (options.strategy == "parameter-server") {
    const bool bounded = options.staleness != "unbounded";
    settings.parameter_server = {&job,
                                 options.servers,
                                 bounded ? std::optional(std::stoull(options.staleness)) : std::nullopt,
                                 options.wire_dtype == "bf16",
                                 threads,
                                 options.prefetch};
  } else if (options.strategy == "local-sgd") {
    settings.local_sgd = {
        options.sync_every,
        {options.outer_optimizer == "nesterov", options.outer_learning_rate, options.outer_momentum},
        elastic_range(options).least > 0,
        options.worker_ranks,
        options.wire_dtype == "bf16"};
  } else if (options.strategy == "pipeline") {
    settings.pipeline = pipeline_settings(options);
    settings.pipeline->hosts = ranks.hosts();
  }
  return settings;
}

std::unique_ptr<Workload> open_data(const Options& options, const Job& job, int ranks,
                                    const weights::WeightSource* weights, CollectiveErrors& errors) {
  const int compute_threads = job.on_gpu() ? 1 : choose_threads(options.threads, job.roster(), job.rank());
  const int data_threads =
      choose_data_threads(options.data_threads, compute_threads, job.roster(), job.rank());
  std::unique_ptr<Workload> workload;
  const bool serves = options.strategy == "parameter-server";
  const int computing = serves ? ranks - options.servers : ranks;
  errors.run_on_all([&] {
    if (computing < 1) {
      throw Error(ErrorCode::usage,
                  fmt::format("--servers {} leaves no worker among {}: start more ranks, or fewer servers",
                              options.servers, plural(ranks, "rank")));
    }
    if (computing % options.worker_ranks != 0) {
      throw Error(ErrorCode::usage, fmt::format("--worker-ranks {} does not divide {}", options.worker_ranks,
                                                plural(ranks, "rank")));
    }
    if (options.batch < computing && options.strategy != "pipeline") {
      throw Error(ErrorCode::usage, fmt::format("--batch {} is less than one sample for each of {} {}",
                                                options.batch, computing, serves ? "workers" : "ranks"));
    }
    workload = read_workload(options, data_threads);
    if (weights) weights::check_tokenizer({options.data, workload->tokenizer()}, *weights, options.init_from);
  });
  return workload;
}

void check_same_on_all_ranks(const Options& options, const Workload& workload, CollectiveErrors& errors) {
  const auto options_differ = errors.differing_ranks(hash_shared_settings(options, workload));
  const auto data_differ = errors.differing_ranks(workload.data_hash());
  errors.run_on_rank0([&] {
    if (!options_differ.empty()) {
      throw Error(ErrorCode::usage, fmt::format("rank {} was started with other options than rank 0",
                                                fmt::join(options_differ, ", ")));
    }
    if (!data_differ.empty()) {
      throw Error(ErrorCode::usage,
                  fmt::format("rank {} read other data from {} than rank 0: give all hosts the same files",
                              fmt::join(data_differ, ", "), options.data));
    }
  });
}

/// Returns a function that measures the peak FLOP/s of `compute`, which `parts` takes.
template <typename Real>
std::function<double()> keep_compute(RunParts& parts, std::unique_ptr<compute::Compute<Real>> compute) {
  const auto measure = [&of = *compute] { return measure_peak_flops(of); };
  parts.compute = std::move(compute);
  return measure;
}

template <typename Real>
std::unique_ptr<compute::Compute<Real>> compute_on_cpu(int threads) {
  using Cpu = compute::cpu::CpuCompute<Real>;
  return std::make_unique<Cpu>(typename Cpu::Options{threads, true, nullptr});
}

std::function<double()> open_compute(const Options& options, const Job& job, RunParts& parts,
                                     compute::cuda::OpenedGpu gpu) {
  const bool updates_here = !gpu.compute || offloads_tensors(options);
  const int threads = updates_here ? choose_threads(options.threads, job.roster(), job.rank()) : 1;
  parts.state.threads = threads;
  if (gpu.compute) return keep_compute(parts, std::move(gpu.compute));
  if (options.dtype == "bf16") return keep_compute(parts, compute_on_cpu<bfloat16>(threads));
  return keep_compute(parts, compute_on_cpu<float>(threads));
}

template <typename Real>
void build_strategy_on(RunParts& parts, const StrategySettings& settings, const Communicator& tensors,
                       const Communicator& host) {
  auto* const compute = dynamic_cast<compute::Compute<Real>*>(parts.compute.get());
  if (compute != nullptr) parts.strategy = make_strategy(settings, *parts.workload, *compute, tensors, host);
}

/// A spare has no strategy.
void build_strategy(const ActiveRanks& ranks, const StrategySettings& settings, RunParts& parts) {
  const Communicator tensors = ranks.tensors();
  if (ranks.is_spare()) return;
  build_strategy_on<float>(parts, settings, tensors, ranks.host());
  build_strategy_on<bfloat16>(parts, settings, tensors, ranks.host());
}

void check_elastic(const Options& options, const Job& job, CollectiveErrors& errors) {
  errors.run_on_rank0([&] {
    if (elastic_range(options).least > job.size()) {
      throw Error(ErrorCode::usage, fmt::format("--elastic {} is more than this job has: {}", options.elastic,
                                                plural(job.size(), "rank")));
    }
  });
}

std::vector<RankInfo> gather_ranks(const Options& options, Job& job, CollectiveErrors& errors,
                                   const std::function<double()>& measure) {
  RankInfo mine = read_rank_info(job.roster()[static_cast<std::size_t>(job.rank())]);
  mine.threads = choose_threads(options.threads, job.roster(), job.rank());
  Communicator world = job.host_world();
  world.barrier();  // so that ranks that share cores measure at the same time
  errors.run_on_all([&] {
    if (options.mfu && !only_serves(job)) mine.peak_flops = measure();
  });
  return gather_rank_info(world, mine);
}

TrainingState initial_state(const Options& options, int ranks, const RunParts& parts,
                            const weights::WeightSource* weights) {
  TrainingState state = parts.state;
  state.tokenizer = parts.workload->tokenizer();
  if (state.tokenizer.empty() && weights) state.tokenizer = weights->tokenizer();
  state.model = parts.workload->model_text();
  state.seed = options.seed;
  state.batch = options.batch;
  state.dtype = options.dtype;
  state.optimizer = options.optimizer_name;
  state.settings = later_step_settings(options);
  state.data_hash = parts.workload->data_hash();
  state.world_size = ranks;
  state.chunk = options.deterministic ? options.chunk : 0;
  return state;
}

Summary run_facts(const Options& options, const Job& job, const ActiveRanks& ranks, const RunParts& parts,
                  const StrategySettings& settings) {
  const Workload& workload = *parts.workload;
  Summary s;
  s.model = workload.model_line();
  s.unit = workload.unit();
  s.data = options.data;
  s.device = parts.compute->describe();
  s.dtype = options.dtype;
  s.parameters = static_cast<std::int64_t>(workload.table().parameter_count);
  s.wanted_steps = options.steps;
  s.strategy = options.strategy;
  s.tokens_per_step = options.batch * workload.predictions_per_sample();
  s.flops_per_token = workload.flops_per_sample() / static_cast<double>(workload.predictions_per_sample());
  s.memory = estimate_memory(workload, settings, 0, ranks.size());
  s.on_gpu = job.on_gpu();
  s.world_size = ranks.size();
  s.hosts = ranks.host_count();
  s.backend = ranks.host().backend();
  return s;
}

/// Rank 0 computes nothing in a job whose workers have GPUs: the facts also tell of them.
void describe_workers(const Options& options, const Job& job, const ActiveRanks& ranks,
                      const StrategySettings& settings, RunParts& parts) {
  if (options.strategy != "parameter-server" || !computes_on_gpus(job)) return;
  Communicator world = ranks.host();
  parts.facts.device = gather_texts(world, parts.facts.device).back();
  parts.worker_memory = estimate_memory(*parts.workload, settings, options.servers, ranks.size());
}

}  // namespace

void rebuild_strategy(const Options& options, Job& job, const ActiveRanks& ranks, RunParts& parts,
                      CollectiveErrors& errors) {
  const StrategySettings settings = strategy_settings(options, job, ranks);
  errors.run_on_all([&] { build_strategy(ranks, settings, parts); });
}

JoinFolder::MemoryEstimate joining_memory(const Options& options, Job& job, const ActiveRanks& ranks,
                                          const Workload& workload) {
  return [&, settings = strategy_settings(options, job, ranks)](int processes) {
    return estimate_joining_memory(options, workload, settings, job, processes);
  };
}

RunFingerprint fingerprint(const Options& options, const Workload& workload) {
  Options known = options;
  known.dtype.clear();  // it can follow from the job's GPUs
  return {hash_shared_settings(known, workload), workload.data_hash()};
}

RunParts prepare_joining_rank(const Options& options, Job& job, const ActiveRanks& ranks,
                              CollectiveErrors& errors) {
  RunParts parts;
  const StrategySettings settings = strategy_settings(options, job, ranks);
  compute::cuda::OpenedGpu gpu = open_gpu(models::is_image_network(options.model_name), job, errors);
  std::unique_ptr<weights::WeightSource> weights;
  errors.run_on_all([&] {
    if (!options.init_from.empty()) weights = weights::open_weights(options.init_from);
  });
  parts.workload = open_data(options, job, ranks.size(), weights.get(), errors);
  // On CPUs the ranks of the run have checked it.
  const FreeMemory free =
      gpu.compute ? check_memory(options, *parts.workload, settings, job, ranks.size(), gpu, errors)
                  : free_memory();
  errors.run_on_all([&] { open_compute(options, job, parts, std::move(gpu)); });
  parts.state = initial_state(options, ranks.size(), parts, weights.get());
  parts.facts = run_facts(options, job, ranks, parts, settings);
  parts.facts.free_bytes = free.bytes;
  return parts;
}

void initialize_parameters(const Options& options, Strategy& strategy) {
  if (options.init_from.empty()) return strategy.initialize();
  strategy.initialize(*weights::open_weights(options.init_from));
}

RunParts prepare_run(const Options& options, Job& job, const ActiveRanks& ranks, OutputFolder& output,
                     CollectiveErrors& errors) {
  RunParts parts;
  check_elastic(options, job, errors);
  StrategySettings settings = strategy_settings(options, job, ranks);
  compute::cuda::OpenedGpu gpu = open_gpu(models::is_image_network(options.model_name), job, errors);
  std::unique_ptr<weights::WeightSource> weights;
  errors.run_on_all([&] {
    if (!options.init_from.empty()) weights = weights::open_weights(options.init_from);
  });
  parts.workload = open_data(options, job, ranks.size(), weights.get(), errors);
  const int least = elastic_range(options).least;
  const int fewest = least > 0 ? std::min(least, ranks.size()) : ranks.size();
  errors.run_on_all([&] { check_strategy(settings, *parts.workload, fewest, computes_on_gpus(job)); });
  errors.run_on_rank0([&] { output.open(); });
  check_same_on_all_ranks(options, *parts.workload, errors);
  FreeMemory free = check_memory(options, *parts.workload, settings, job, ranks.size(), gpu, errors);
  if (measure_pipeline(options, job, *parts.workload, gpu.compute.get(), settings, errors))
    free = check_memory(options, *parts.workload, settings, job, ranks.size(), gpu, errors);
  std::function<double()> measure;
  errors.run_on_all([&] {
    measure = open_compute(options, job, parts, std::move(gpu));
    build_strategy(ranks, settings, parts);
    if (job.rank() != 0) return;
    weights ? parts.strategy->initialize(*weights) : parts.strategy->initialize();
  });
  parts.state = initial_state(options, ranks.size(), parts, weights.get());
  parts.facts = run_facts(options, job, ranks, parts, settings);
  describe_workers(options, job, ranks, settings, parts);
  parts.facts.free_bytes = free.bytes;
  parts.strategy_text = describe_strategy(settings, *parts.workload, host_names(job));
  parts.memory_limit = free.where;
  parts.facts.ranks = gather_ranks(options, job, errors, measure);
  parts.facts.ranks.resize(static_cast<std::size_t>(ranks.size()));
  for (const RankInfo& rank : parts.facts.ranks) parts.facts.peak_flops += rank.peak_flops;
  return parts;
}

}  // namespace muster
