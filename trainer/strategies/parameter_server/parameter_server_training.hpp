// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "models/memory_segment.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "strategies/offload/offloaded_model.hpp"
#include "strategies/parameter_server/slice_optimizer.hpp"
#include "training/strategy.hpp"

namespace muster {

/// Training with parameter servers (Li et al., OSDI 2014): the first ranks hold a slice of the parameters and
/// moments each, the other ranks are workers. A step is cut into tasks, one for each worker, or with chunks
/// one for each chunk. Workers take the next task, pull the parameters, and push the task's gradient.
///
/// With staleness 0 the gradients of a step are added in the reducer's tree and make one update: with chunks
/// the bits are those of data parallelism. Otherwise each gradient is an update when it arrives, and a worker
/// may begin a step up to `staleness` steps after the oldest one that is not done.
///
/// A worker with a GPU computes gradients there (OffloadedModel), and its tensors on the host are pushed and
/// pulled. Servers update on the host.
///
/// A lost worker's tasks go to the others. Clocks of the servers count from the first step of this run.
class ParameterServerTraining : private HostUpdates, public Strategy {
 public:
  struct Settings {
    Job* job = nullptr;
    int servers = 1;
    std::optional<std::uint64_t> staleness = 0;  ///< steps; nothing: unbounded
    bool sends_bfloat16 = false;
    /// Above 0, workers compute gradients on devices, and so many threads of each work on its tensors on the
    /// host. Servers have none. 0: all ranks compute on the host.
    int update_threads = 0;
    /// With a staleness, a worker reads the parameters for its next task while it computes one.
    bool prefetches = true;
  };

  /// `training`: as for a Replica, batch over all ranks; without on_device. `host`: on host memory.
  /// Collective.
  template <typename Real>
  ParameterServerTraining(const Settings& settings, const Replica::Settings& training,
                          const Workload& workload, compute::Compute<Real>& compute, Communicator host);

  /// The memory that `rank` of `ranks` allocates for training.
  static MemorySegments estimate_memory(const Workload& workload, const Settings& settings,
                                        const Replica::Settings& training, int rank, int ranks);

  const models::TensorTable& table() const noexcept override { return table_; }
  std::int64_t predictions_per_step() const noexcept override {
    return training_.batch * workload_.predictions_per_sample();
  }
  std::string rank_dependence() const override {
    return training_.chunk > 0 ? "" : "with --strategy=parameter-server";
  }
  CheckpointParts checkpoint_parts() const override {
    return {Optimizer<float>::moment_count(training_.optimizer.kind)};
  }

  void initialize() override;
  void initialize(const weights::WeightSource& source) override;
  void broadcast() override;
  void scatter_state(const TrainingTensors& whole) override;
  void gather_state(const TrainingTensors& whole) override;
  std::uint64_t parameter_hash() override;

  void rehearse(std::int64_t first_sample) override;
  /// On a worker: computes tasks until none of this step is left to take.
  void begin_step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                  const StepFlags& flags) override;
  /// Waits until all workers' gradients of the step are applied.
  StepResult end_step() override;
  std::size_t in_flight() const noexcept override { return in_flight_.size(); }
  std::size_t max_in_flight() const override;

  Validation validate_share(const Model::ShouldStop& should_stop = Model::never_stop) override;
  void all_reduce_validation(Validation& validation) override { average_over_ranks(host_, validation); }
  std::vector<std::string> left_out() const override {
    return model_ ? model_->left_out() : std::vector<std::string>();
  }

 private:
  // Sums over the tasks of a step.
  enum Sum { loss_sum, norm_sum, non_finite_sum, stop_sum, failed_sum, sum_count };
  struct InFlightStep {
    std::uint64_t clock = 0;
    std::int64_t step = 0;
    std::uint64_t first_sample = 0;
    double learning_rate = 0;
    StepResult result;
  };

  ParameterServerOptions options() const;
  SliceOptimizer::Settings slice_settings() const;
  bool is_synchronous() const { return settings_.staleness == 0; }
  static bool prefetches(const Settings& settings) { return settings.prefetches && settings.staleness != 0; }
  static std::uint64_t tasks_per_step(const Settings& settings, const Replica::Settings& training, int ranks);
  static Share task_samples(const Replica::Settings& training, std::uint64_t index, std::uint64_t tasks);
  void start_server();
  void compute_tasks();
  void compute_task(const ParameterTask& task);
  void pull(const ParameterTask& task, StepResult& result);
  void push_mean_gradient(const ParameterTask& task, std::vector<double> arguments, std::vector<double> sums);
  void use_parameters();
  void read_parameters();

  Settings settings_;
  Replica::Settings training_;
  const Workload& workload_;
  Communicator host_;
  compute::UpdateCompute<float>& compute_;
  models::TensorTable table_;
  std::uint64_t tasks_;
  std::string name_;  // of the servers
  std::optional<SliceOptimizer> slice_;
  std::optional<ParameterServer> server_;
  std::optional<ParameterClient> client_;
  std::unique_ptr<Model> model_;         // of a worker
  std::vector<float> initial_;           // on rank 0, until broadcast()
  std::vector<float> copy_;              // of the parameters, on a server that hashes them
  std::int64_t first_step_ = -1;         // whose clock is 0
  std::optional<std::uint64_t> pulled_;  // the clock whose parameters the model has, in synchronous mode
  std::deque<InFlightStep> in_flight_;
};

}  // namespace muster
