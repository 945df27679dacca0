// SPDX-License-Identifier: Apache-2.0
#include "strategies/make_strategy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/error.hpp"
#include "strategies/data_parallel/replica_memory.hpp"

namespace muster {
namespace {

/// A rank has at most so many activation rows, so that index arithmetic stays within an int.
constexpr std::uint64_t max_rows = 1 << 22;
/// A GPU has at most so many samples, which are blocks of a grid in z.
constexpr std::uint64_t max_samples_on_gpu = 65535;

/// How many samples a rank computes at once; the first one computes the most.
std::uint64_t samples_at_once(const StrategySettings& settings, const Workload& workload, int ranks) {
  if (settings.pipeline)
    return pipeline::make_plan(*settings.pipeline, settings.replica, workload, 0, ranks).max_samples;
  const int servers = settings.parameter_server ? settings.parameter_server->servers : 0;
  return Replica::samples_at_once(settings.replica, 0, ranks - servers);
}

/// Another setting that makes them fewer.
const char* describe_remedy(const StrategySettings& settings) {
  if (settings.replica.chunk > 0) return "a smaller --chunk";
  if (settings.pipeline) return "more --micro-batches";
  return settings.parameter_server ? "more workers" : "a --micro-batch";
}

void check_samples_at_once(const StrategySettings& settings, const Workload& workload, int ranks,
                           bool on_gpus) {
  const std::uint64_t samples = samples_at_once(settings, workload, ranks);
  const auto rows = static_cast<std::uint64_t>(workload.predictions_per_sample());
  const std::uint64_t most = std::min(on_gpus ? max_samples_on_gpu : max_rows, max_rows / rows);
  if (samples <= most) return;
  throw Error(ErrorCode::usage,
              fmt::format("--batch {} gives a rank {} samples at once, and the most are {}: use a smaller "
                          "--batch, or {}",
                          settings.replica.batch, samples, most, describe_remedy(settings)));
}

}  // namespace

template <typename Real>
std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings, const Workload& workload,
                                        compute::Compute<Real>& compute, Communicator world,
                                        Communicator host) {
  if (settings.local_sgd) {
    return std::make_unique<LocalSgd>(*settings.local_sgd, settings.replica, workload, compute,
                                      std::move(world), std::move(host));
  }
  if (settings.central_storage) {
    return std::make_unique<CentralStorage>(*settings.central_storage, settings.replica, workload, compute,
                                            std::move(host));
  }
  if (settings.parameter_server) {
    return std::make_unique<ParameterServerTraining>(*settings.parameter_server, settings.replica, workload,
                                                     compute, std::move(host));
  }
  if (settings.pipeline) {
    return std::make_unique<Pipeline>(*settings.pipeline, settings.replica, workload, compute, world, host);
  }
  return std::make_unique<Replica>(settings.replica, workload, compute, std::move(world), std::move(host));
}

template std::unique_ptr<Strategy> make_strategy(const StrategySettings&, const Workload&,
                                                 compute::Compute<float>&, Communicator, Communicator);
template std::unique_ptr<Strategy> make_strategy(const StrategySettings&, const Workload&,
                                                 compute::Compute<bfloat16>&, Communicator, Communicator);

void check_strategy(const StrategySettings& settings, const Workload& workload, int ranks, bool on_gpus) {
  if (settings.pipeline) pipeline::check_plan(*settings.pipeline, settings.replica, workload, ranks);
  check_samples_at_once(settings, workload, ranks, on_gpus);
}

std::string describe_strategy(const StrategySettings& settings, const Workload& workload,
                              const std::vector<std::string>& host_names) {
  return settings.pipeline
             ? pipeline::describe_plan(*settings.pipeline, settings.replica, workload, host_names)
             : "";
}

MemorySegments estimate_memory(const Workload& workload, const StrategySettings& settings, int rank,
                               int ranks) {
  if (settings.local_sgd)
    return LocalSgd::estimate_memory(workload, *settings.local_sgd, settings.replica, rank, ranks);
  if (settings.central_storage)
    return CentralStorage::estimate_memory(workload, *settings.central_storage, settings.replica, rank,
                                           ranks);
  if (settings.parameter_server)
    return ParameterServerTraining::estimate_memory(workload, *settings.parameter_server, settings.replica,
                                                    rank, ranks);
  if (settings.pipeline)
    return pipeline::estimate_memory(*settings.pipeline, settings.replica, workload, rank, ranks);
  return estimate_memory(workload, settings.replica, rank, ranks);
}

}  // namespace muster
