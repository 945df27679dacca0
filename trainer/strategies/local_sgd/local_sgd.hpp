// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "models/memory_segment.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "strategies/local_sgd/outer_optimizer.hpp"
#include "strategies/local_sgd/snapshot.hpp"
#include "training/strategy.hpp"

namespace muster {

/// Local SGD (Stich, arXiv 1805.09767) and DiLoCo (Douillard et al., arXiv 2311.08105): each rank is a worker
/// that updates its own parameters with its own samples of each step. Every sync_every steps the workers'
/// parameters are averaged, weighted by their samples of a step, and an outer optimizer makes the next ones,
/// with which all workers go on. The optimizers' moments stay with their workers.
///
/// With worker_ranks above 1, so many consecutive ranks are a worker and train it by data parallelism. The
/// first rank of each averages, and sends the others the result.
///
/// Between the synchronizations workers exchange a few scalars a step: the loss and flags. These travel while
/// the next step computes.
///
/// Checkpoints are taken after a synchronization. The moments in them are the workers' means, with which the
/// workers go on, too. So a run that resumes from it has the same bits.
class LocalSgd : public Strategy {
 public:
  struct Settings {
    std::int64_t sync_every = 50;  ///< steps
    OuterOptimizerSettings outer;
    bool elastic = false;  ///< keeps the state of the last synchronization, see Snapshot
    int worker_ranks = 1;  ///< ranks of a worker; divides their number
    /// With outer.nesterov: workers send what their parameters moved by, rounded to bfloat16, in place of
    /// their parameters. Sums are in float32, and rounded where they are sent on.
    bool sends_bfloat16 = false;
  };

  /// `training`: as for a data-parallel Replica, batch over all ranks. Collective; otherwise as Replica's.
  template <typename Real>
  LocalSgd(const Settings& settings, const Replica::Settings& training, const Workload& workload,
           compute::Compute<Real>& compute, const Communicator& world, const Communicator& host);

  /// The memory that `rank` of `ranks` allocates for training.
  static MemorySegments estimate_memory(const Workload& workload, const Settings& settings,
                                        const Replica::Settings& training, int rank, int ranks);

  const models::TensorTable& table() const noexcept override { return worker_.table(); }
  std::int64_t predictions_per_step() const noexcept override {
    return batch_ * worker_.predictions_per_step() / static_cast<std::int64_t>(share_.count());
  }
  std::string rank_dependence() const override { return "with --strategy=local-sgd"; }
  CheckpointParts checkpoint_parts() const override;

  void initialize() override { worker_.initialize(); }
  void initialize(const weights::WeightSource& source) override { worker_.initialize(source); }
  void broadcast() override;
  void scatter_state(const TrainingTensors& whole) override;
  void gather_state(const TrainingTensors& whole) override;
  /// The state after the last synchronization, with this worker's moments.
  std::optional<StateParts> copy_state(const TrainingTensors& whole, std::int64_t step) override;
  /// A step's scalars are reduced over all ranks.
  bool ends_steps_alone() const override { return false; }
  std::uint64_t parameter_hash() override { return worker_.parameter_hash(); }

  void rehearse(std::int64_t first_sample) override {
    worker_.rehearse(first_sample + static_cast<std::int64_t>(share_.begin));
  }
  void begin_step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                  const StepFlags& flags) override;
  /// The result's loss and gradient norm are the workers' means. When a worker's loss or gradients are not
  /// finite, that worker alone leaves its update out.
  StepResult end_step() override;
  std::size_t in_flight() const noexcept override { return in_flight_.size(); }
  std::size_t max_in_flight() const override { return 2; }
  std::optional<Synchronization> synchronize() override;

  Validation validate_share(const Model::ShouldStop& should_stop = Model::never_stop) override {
    return worker_.validate_part(world_.rank(), world_.size(), should_stop);
  }
  void all_reduce_validation(Validation& validation) override;
  std::vector<std::string> left_out() const override { return worker_.left_out(); }

  /// This worker's tensors.
  TrainingTensors tensors() noexcept { return worker_.tensors(); }

 private:
  enum Scalar { loss_scalar, norm_scalar, non_finite_scalar, stop_scalar, failed_scalar, scalar_count };
  struct InFlightStep {
    std::optional<Synchronization> synchronization;
    StepResult result;
    double waited = 0;                           ///< seconds, for the scalars of an earlier step
    std::array<double, scalar_count> scalars{};  ///< sums over all ranks, once `reduction` has completed
    Work reduction;
  };

  // Ends the worker's step and starts to reduce its scalars.
  void start_reduction(InFlightStep& step);
  void start_round();
  /// Replaces each worker's values by the workers' weighted mean.
  void average(std::span<float> values);
  /// The same for the parameters, in host memory, with Settings::sends_bfloat16.
  void average_rounded(std::span<float> parameters);
  /// Averages and makes the outer step, on the host.
  void take_outer_step(std::span<float> parameters);
  /// With Settings::elastic: copies the state for copy_state(). `step`: as Snapshot::taken().
  void take_snapshot(std::optional<std::int64_t> step);
  Synchronization average_parameters();

  Settings settings_;
  std::int64_t batch_;
  Share share_;  ///< this worker's, of the samples of a step
  double weight_;
  Communicator world_, host_;
  Communicator worker_world_, worker_host_;  ///< of this worker's ranks
  Communicator workers_, workers_host_;      ///< of the ranks with this rank's number in their workers
  Communicator scalars_;                     ///< of its own, since its reductions outlast a step's begin
  compute::UpdateCompute<float>& compute_;
  Replica worker_;
  std::optional<OuterOptimizer<float>> outer_;  ///< without it, the mean is the result
  compute::Arena<float> staging_;               ///< a device's parameters, for the outer optimizer
  compute::Arena<bfloat16> moved_;              ///< what is sent with Settings::sends_bfloat16
  std::optional<Snapshot> snapshot_;
  std::deque<InFlightStep> in_flight_;
  std::int64_t begun_steps_ = 0;  ///< number of the last begun step, counted from 1
  std::int64_t steps_since_ = 0;  ///< the last synchronization
  double waited_ = 0;             ///< InFlightStep::waited of the next step
};

}  // namespace muster
