// SPDX-License-Identifier: Apache-2.0
#include "strategies/make_strategy.hpp"

#include <utility>

#include "strategies/data_parallel/replica_memory.hpp"

namespace muster {

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

void check_strategy(const StrategySettings& settings, const Workload& workload, int ranks) {
  if (settings.pipeline) pipeline::check_plan(*settings.pipeline, settings.replica, workload, ranks);
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
