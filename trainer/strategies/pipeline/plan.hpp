// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/memory_segment.hpp"
#include "muster/sampler.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "strategies/pipeline/layer_times.hpp"
#include "strategies/pipeline/schedule.hpp"
#include "training/stage_model.hpp"
#include "training/workload.hpp"

namespace muster::pipeline {

/// What the layers are divided by: so that no stage has more than needed of it.
enum class Balance { flops, parameters, memory, time };

struct Settings {
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int stages = 0;          ///< ranks of a pipeline; 0: all ranks
  int micro_batches = 0;   ///< of a pipeline in a step; 0: four for each rank, if there are enough samples
  int virtual_stages = 1;  ///< on each rank
  Balance balance = Balance::flops;
  /// Of each rank of a pipeline, for Balance::time. Until they are measured it divides by memory, which is
  /// the division that fits if any does.
  std::vector<LayerTimes> layer_times{};
  /// Of each rank, the number of its host, from 0 in the order of ranks; empty: all ranks are on one host.
  std::vector<int> hosts{};
};

/// What one rank does in a step. The ranks are `replicas` pipelines (divide_ranks()). Each pipeline computes
/// a part of every batch.
struct Plan {
  ScheduleShape shape;  ///< of this rank's pipeline
  int rank = 0;         ///< in its pipeline
  int replica = 0, replicas = 1;
  std::vector<std::vector<int>> world_ranks;  ///< [replica][place in its pipeline]
  std::vector<models::LayerRange> stages;     ///< of the whole pipeline
  /// This pipeline's micro-batches, as samples from the first of the step.
  std::vector<Share> micro_batches;
  OperationList operations;
  std::uint64_t max_samples = 1;  ///< of a micro-batch
  /// Each micro-batch is a chunk (Replica::Settings::chunk), and its gradients are reduced by themselves.
  bool reduces_micro_batches = false;

  std::vector<int> local_stages() const;
  /// The settings of one of the local stages.
  StageSettings stage_settings(int stage) const;
  int world_rank(int stage, int of_replica) const {
    return world_ranks[static_cast<std::size_t>(of_replica)][static_cast<std::size_t>(shape.rank_of(stage))];
  }
  /// Gradients that stay in memory until they are sent, of the output layer that is another stage's
  /// token embedding.
  std::size_t table_copies(int stage, const StageTable& table) const;
};

Plan make_plan(const Settings& settings, const Replica::Settings& training, const Workload& workload,
               int rank, int ranks);

inline bool shards_optimizer(const Replica::Settings& training, int replicas) {
  return training.shard_optimizer && replicas > 1;
}
/// The elements of a stage's tensors whose moments `replica` keeps.
Share moment_part(const Replica::Settings& training, std::size_t elements, int replica, int replicas);

/// Checks the settings against the model and the number of ranks, and that the schedule does not wait for
/// ever.
/// @throws muster::Error(ErrorCode::usage)
void check_plan(const Settings& settings, const Replica::Settings& training, const Workload& workload,
                int ranks);

/// What `rank` measures before the layers can be divided by time.
MeasuredLayers layers_to_measure(const Plan& plan, const Replica::Settings& training);

/// The memory that `rank` of `ranks` allocates for training.
MemorySegments estimate_memory(const Settings& settings, const Replica::Settings& training,
                               const Workload& workload, int rank, int ranks);

/// The schedule, and a table of the stages, for people. `host_names`: of each rank.
std::string describe_plan(const Settings& settings, const Replica::Settings& training,
                          const Workload& workload, const std::vector<std::string>& host_names);

}  // namespace muster::pipeline
