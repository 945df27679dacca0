// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strategies/pipeline/schedule_runner.hpp"
#include "strategies/pipeline/stage.hpp"
#include "training/strategy.hpp"

namespace muster {

/// Pipeline parallelism crossed with data parallelism: the layers are divided into stages over the ranks of a
/// pipeline, and micro-batches go through the stages; the replicas of a stage reduce its gradients.
///
/// With chunks (Replica::Settings::chunk), a micro-batch is a chunk, and a step has the bits of data
/// parallelism with the same chunks, for any number of stages and pipelines and any schedule: each stage
/// adds a chunk's gradients in the same fixed tree, and the norm is added tensor by tensor. A token
/// embedding that is also the output layer belongs to the first stage; the last stage keeps a copy, sends its
/// gradient, and receives the updated values.
class Pipeline : public Strategy {
 public:
  /// `training`: as for a data-parallel Replica, batch over all ranks. Collective; otherwise as Replica's.
  /// The settings were checked by pipeline::check_plan(). `world` communicates from the compute's memory,
  /// `host` from host memory.
  template <typename Real>
  Pipeline(const pipeline::Settings& settings, const Replica::Settings& training, const Workload& workload,
           compute::Compute<Real>& compute, const Communicator& world, const Communicator& host);

  const models::TensorTable& table() const noexcept override { return table_; }
  std::int64_t predictions_per_step() const noexcept override {
    return training_.batch * predictions_per_sample_;
  }
  std::string rank_dependence() const override {
    return training_.chunk > 0 ? "" : "without --deterministic";
  }
  CheckpointParts checkpoint_parts() const override {
    return {Optimizer<float>::moment_count(training_.optimizer.kind)};
  }

  void initialize() override { initial_.reset(); }
  void initialize(const weights::WeightSource& source) override;
  void broadcast() override;
  void scatter_state(const TrainingTensors& whole) override;
  void gather_state(const TrainingTensors& whole) override;
  /// Of all stages of this rank's pipeline; collective.
  std::uint64_t parameter_hash() override;

  void rehearse(std::int64_t) override {}
  /// The update is done when this returns. On a device it is only queued, and the host does not wait.
  void begin_step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                  const StepFlags& flags) override;
  StepResult end_step() override;
  std::size_t in_flight() const noexcept override { return result_ ? 1 : 0; }
  std::size_t max_in_flight() const override { return 1; }

  /// Communicates, unlike other strategies: batches go through the stages. `should_stop` is asked on the
  /// first stage's rank alone, whose data end the validation when they are in error; an error is thrown on
  /// the ranks that met it.
  Validation validate_share(const Model::ShouldStop& should_stop = Model::never_stop) override;
  void all_reduce_validation(Validation& validation) override;
  std::string draw_last_step() override;
  std::vector<std::string> left_out() const override;

  /// Bytes of this rank's stages and moments.
  std::size_t bytes() noexcept;
  const pipeline::Plan& plan() const noexcept { return plan_; }

 private:
  void synchronize_batch_norm();
  Share samples_of(int micro_batch) const;
  void prefetch();
  void load(int stage, int micro_batch, int slot);
  void backward(const pipeline::Operation& operation, int slot, const StepFlags& flags);
  /// The last stage's losses of micro-batches whose chunk ends later, with their weight gradients.
  void keep_loss(const pipeline::Operation& operation);
  std::optional<double> decide();
  void measure_idle_share(double busy_seconds);
  void update(double norm, double learning_rate, std::int64_t step);
  void find_non_finite(const std::vector<bool>& chunk_is_finite);
  pipeline::Stage& stage(int number);
  /// After the parameters were changed.
  void after_parameters();
  /// A part of the state that one rank keeps.
  struct StatePart {
    std::span<float> whole;  ///< on rank 0
    std::span<float> own;    ///< on the owner
    int owner = 0;
  };
  /// Appends the parts of a stage's moments of one kind, which `arena` numbers, or of its parameters, 0.
  void append_parts(std::vector<StatePart>& parts, std::span<float> whole, std::size_t arena, int number,
                    bool of_all_replicas);
  /// All parts, in one order for all ranks. `of_all_replicas`: also the same moments of several replicas.
  std::vector<StatePart> list_parts(const TrainingTensors& whole, bool of_all_replicas);

  pipeline::Plan plan_;
  Replica::Settings training_;
  models::TensorTable table_;
  std::int64_t predictions_per_sample_;
  Communicator host_;
  Communicator pipeline_;  ///< the ranks of this pipeline, by their place in it, on host memory
  Communicator tensors_;   ///< the same on the compute's memory
  compute::UpdateCompute<float>& compute_;
  std::vector<StageTable> tables_;                        ///< of all stages
  std::vector<std::unique_ptr<pipeline::Stage>> stages_;  ///< their memory outlives the sends of links_
  pipeline::StageLinks links_;
  std::optional<pipeline::ScheduleRunner> runner_;
  compute::Arena<double> squares_;      ///< of all tensors; on the host also the seconds of operations
  compute::Arena<float> scalars_;       ///< of all stages
  compute::Arena<double> kept_losses_;  ///< by micro-batch
  std::optional<compute::Arena<float>> initial_;  ///< rank 0's trained weights, until broadcast()
  std::uint64_t first_sample_ = 0, steps_ = 0;
  std::optional<StepResult> result_;
  double idle_share_ = 0;  ///< of the last step, on rank 0
};

}  // namespace muster
