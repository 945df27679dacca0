// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compute/compute.hpp"
#include "muster/muster.hpp"
#include "optimizer/optimizer.hpp"
#include "strategies/data_parallel/part_copy.hpp"
#include "training/strategy.hpp"
#include "training/workload.hpp"

namespace muster {

/// One rank's copy of the model and its part in data-parallel training: after every step, all ranks have the
/// same parameters. Functions that communicate are collective over `world`.
class Replica : public Strategy {
 public:
  struct Settings {
    OptimizerSettings optimizer;
    int batch = 12;  ///< global samples per step, at least one for each rank
    std::uint64_t seed = 0;
    /// Samples in a chunk. Above 0, gradients are computed chunk by chunk and added in a fixed tree, so that
    /// a step has the same bits for any number of ranks (ReducerOptions::chunks). 0: each rank computes all
    /// its samples at once.
    int chunk = 0;
    /// ZeRO-1 (Rajbhandari et al., arXiv 1910.02054, section 5.1): each rank keeps the optimizer's moments of
    /// its part of the parameters only (optimizer_part()), updates that part, and receives the other parts.
    /// Every rank still has all reduced gradients, so all bits equal those without sharding: the norm is
    /// summed in the same order, and the reducer adds in the same order. Traffic: 3(n-1)/n times the
    /// parameters' bytes a step instead of 2(n-1)/n.
    bool shard_optimizer = false;
    /// For estimate_memory(): bytes of the type that the model computes in.
    std::size_t real_bytes = sizeof(float);
    /// The tensors are in a device's memory and are reduced there.
    bool on_device = false;
    /// Above 0, a rank computes at most so many samples at once, and adds the gradients of these
    /// micro-batches up. Without chunks only.
    int micro_batch = 0;
    /// Of the training loss; see Compute::set_label_smoothing().
    double label_smoothing = 0;
    /// Batch normalization over the samples of all ranks. Without chunks only.
    bool sync_batch_norm = false;
    /// Samples from the first of a step to the first of the next; 0: `batch`.
    int sample_stride = 0;
    /// For a device: a step is updated once this rank knows that it is reduced, and the host waits for that,
    /// so that the loss of a rank leaves the state after the last step. On the host this is always so.
    bool update_after_reduction = false;
    /// With shard_optimizer: the number of each rank's host. Then every rank also keeps a copy of another
    /// rank's part (PartCopy), so that the state outlives the loss of a rank. Empty: no copies.
    std::vector<int> hosts{};
  };
  /// Scalars that are reduced together with the gradients.
  static constexpr std::size_t extra_scalars = compute::reduced_scalar_count;
  /// How many samples `rank` of `ranks` computes at once.
  static std::uint64_t samples_at_once(const Settings& settings, int rank, int ranks);
  /// In how many parts `rank` computes its samples of a step without chunks.
  static std::uint64_t micro_batches(const Settings& settings, int rank, int ranks);
  static ReducerOptions reducer_options(const Settings& settings);

  /// The workload must outlive the replica. `world` communicates from the compute's memory, `host` from host
  /// memory; by default they are the same. The model computes in Real: float or bfloat16, of
  /// settings.real_bytes.
  template <typename Real>
  Replica(const Settings& settings, const Workload& workload, compute::Compute<Real>& compute,
          Communicator world, std::optional<Communicator> host = {})
      : Replica(settings, workload, compute, std::move(world), std::move(host), std::nullopt) {}

  void initialize() override;
  void initialize(const weights::WeightSource& source) override;
  void broadcast() override;
  /// The parameters go to every rank, the moments to the ranks that keep them. Allocates no memory for host
  /// tensors.
  void scatter_state(const TrainingTensors& whole) override;
  /// Gathers from one rank after the other.
  void gather_state(const TrainingTensors& whole) override;
  /// With sharded optimizer state: this rank's part and that of which it keeps a copy.
  std::optional<StateParts> copy_state(const TrainingTensors& whole, std::int64_t step) override;
  void send_gradients(Communicator& left, int to) override;
  void update_with_gradients(Communicator& left, int from) override;

  /// Without chunks only.
  void rehearse(std::int64_t first_sample) override;
  /// On the host the update is done when this returns. On an asynchronous device it is only queued, and the
  /// host does not wait.
  void begin_step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                  const StepFlags& flags) override;
  StepResult end_step() override;
  std::size_t in_flight() const noexcept override { return in_flight_.size(); }
  /// On an asynchronous device one step may begin before the previous one ends.
  std::size_t max_in_flight() const override {
    return compute_.stream() != nullptr && !settings_.update_after_reduction ? 2 : 1;
  }
  /// begin_step() and end_step(); no other step may be in flight.
  StepResult step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                  const StepFlags& flags) {
    begin_step(step, first_sample, learning_rate, flags);
    return end_step();
  }
  Validation validate_share(const Model::ShouldStop& should_stop = Model::never_stop) override {
    return validate_part(world_.rank(), world_.size(), should_stop);
  }
  /// Validates the share of the held-out predictions that `rank` of `ranks` has, without communication.
  Validation validate_part(int rank, int ranks, const Model::ShouldStop& should_stop) {
    return model_->validate_share(rank, ranks, settings_.chunk > 0, should_stop);
  }
  void all_reduce_validation(Validation& validation) override;
  std::vector<std::string> left_out() const override { return model_->left_out(); }
  std::uint64_t parameter_hash() override;
  std::string rank_dependence() const override {
    return settings_.chunk > 0 ? "" : "without --deterministic";
  }
  CheckpointParts checkpoint_parts() const override {
    return {Optimizer<float>::moment_count(settings_.optimizer.kind)};
  }
  /// Call this after tensors().parameters were changed.
  void round_parameters() { model_->tensors().round_parameters(compute_); }

  /// Bytes of the model and the moments.
  std::size_t bytes() noexcept;
  const models::TensorTable& table() const noexcept override { return model_->tensors().table(); }
  /// This rank's tensors: all parameters, and the moments of its part.
  TrainingTensors tensors() noexcept {
    return {model_->tensors().parameters(), optimizer_.moment1(), optimizer_.moment2(), {}};
  }
  std::int64_t predictions_per_step() const noexcept override {
    return settings_.batch * workload_.predictions_per_sample();
  }

 protected:
  /// Where a strategy that is a replica, too, keeps its parameters and moments.
  struct Storage {
    compute::Memory& parameters;  ///< of the parameters and of the rounded ones, allocated in this order
    Share part;                   ///< of the arena: what this rank updates
    Optimizer<float>::Moments moments;  ///< of this part
  };
  /// `storage`: without it, all is in the compute's memory.
  template <typename Real>
  Replica(const Settings& settings, const Workload& workload, compute::Compute<Real>& compute,
          Communicator world, std::optional<Communicator> host, const std::optional<Storage>& storage);
  /// With a model that is built, whose parameters and gradients lie in `compute`'s memory.
  Replica(const Settings& settings, const Workload& workload, compute::UpdateCompute<float>& compute,
          std::unique_ptr<Model> model, Communicator world, std::optional<Communicator> host,
          const std::optional<Storage>& storage);

  /// Makes all ranks' updates of a step visible to this rank, whose own part is updated.
  virtual void exchange_parts(StepResult& result);

 private:
  struct InFlightStep {
    std::uint64_t number = 0;  ///< the reducer's number of this step
    std::uint64_t first_sample = 0;
    std::int64_t update = 0;  ///< number of the update, from 0
    double learning_rate = 0;
    StepResult result;  ///< filled as values become known
  };

  void create_reducer();
  void synchronize_batch_norm();
  /// Decides on the update of begun_ by the reduced gradients. Returns as UpdateCompute::decide().
  std::optional<double> decide();
  /// Makes the update, if there is a norm. The step is then in flight.
  void update(const std::optional<double>& norm);
  Share chunk_samples(std::uint64_t first_sample, std::uint64_t chunk) const;
  void compute_chunk(std::uint64_t chunk, const StepFlags& flags);
  void load_samples(const Share& samples, StepResult& result);
  // Says which samples this step and the next one load.
  void prefetch(std::uint64_t first_sample);
  // The gradients of `samples`, added to those of the micro-batches before, which begin at `begin`.
  void compute_micro_batch(const Share& samples, std::uint64_t begin, bool last);
  bool sharded() const noexcept { return settings_.shard_optimizer && world_.size() > 1; }
  Share rank_part(int rank) const;
  /// Where the parts of the gradients end whose squares are added by themselves.
  std::vector<std::size_t> norm_ends() const;
  std::vector<std::pair<std::span<float>, std::span<float>>> pair_moments(const TrainingTensors& from,
                                                                          const TrainingTensors& to) const;
  void copy_own(const TrainingTensors& whole);
  /// Sends each rank its part of rank 0's `from`. `to` is this rank's.
  void scatter_parts(std::span<const float> from, std::span<float> to,
                     const std::function<Share(int rank)>& part);

  Settings settings_;
  const Workload& workload_;
  Communicator world_, host_;
  compute::UpdateCompute<float>& compute_;
  std::unique_ptr<Model> model_;
  Optimizer<float> optimizer_;
  std::vector<int> copied_ranks_;  ///< copied_ranks()
  std::optional<PartCopy> copy_;
  std::optional<Reducer> reducer_;  ///< created at the first step; reduces the extra scalars and every tensor
  std::uint64_t reduced_steps_ = 0;
  InFlightStep begun_;  ///< the last one
  std::deque<InFlightStep> in_flight_;
  /// Of each trained tensor's gradient. A single rank's gradients stay as they were when they were checked
  /// for finite values, so that pass also gives their norm. Empty where reductions change them, and on a
  /// device.
  std::vector<double> squares_;
  compute::Arena<float> micro_batch_sums_;  ///< of gradients, laid out like them; empty without micro-batches
};

}  // namespace muster
