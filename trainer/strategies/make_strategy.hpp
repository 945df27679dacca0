// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/memory_segment.hpp"
#include "strategies/central_storage/central_storage.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "strategies/local_sgd/local_sgd.hpp"
#include "strategies/parameter_server/parameter_server_training.hpp"
#include "strategies/pipeline/pipeline.hpp"
#include "training/strategy.hpp"

namespace muster {

/// A strategy with its settings.
struct StrategySettings {
  // NOLINTNEXTLINE(google-explicit-constructor): these settings alone are those of data parallelism
  StrategySettings(Replica::Settings its_replica = {}) : replica(std::move(its_replica)) {}

  Replica::Settings replica;  ///< of every strategy; the batch is that of all ranks
  std::optional<LocalSgd::Settings> local_sgd{};
  std::optional<CentralStorage::Settings> central_storage{};
  std::optional<ParameterServerTraining::Settings> parameter_server{};
  std::optional<pipeline::Settings> pipeline{};
};

/// Builds the strategy on `compute`. Collective. The workload and the compute must outlive it. `world`
/// communicates from the compute's memory, `host` from host memory.
template <typename Real>
std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings, const Workload& workload,
                                        compute::Compute<Real>& compute, Communicator world,
                                        Communicator host);

/// Checks what the strategy needs of the model and of the number of ranks, the fewest that will train, on
/// GPUs or CPUs.
/// @throws muster::Error(ErrorCode::usage)
void check_strategy(const StrategySettings& settings, const Workload& workload, int ranks, bool on_gpus);

/// Lines about how the strategy divides the training, to be printed at the start; maybe none.
/// `host_names`: of each rank.
std::string describe_strategy(const StrategySettings& settings, const Workload& workload,
                              const std::vector<std::string>& host_names);

/// The memory that `rank` of `ranks` allocates for training, computed before it allocates.
MemorySegments estimate_memory(const Workload& workload, const StrategySettings& settings, int rank,
                               int ranks);

}  // namespace muster
