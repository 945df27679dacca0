// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "compute/compute.hpp"
#include "muster/muster.hpp"
#include "optimizer/optimizer.hpp"
#include "training/workload.hpp"
#include "weights/weight_source.hpp"

namespace muster {

/// Flags of this rank for all ranks; how many ranks set each is reduced together with the gradients.
struct StepFlags {
  bool stop = false;    ///< a signal was received
  bool failed = false;  ///< another error occurred on this rank
};

struct StepResult {
  double loss = 0;           ///< mean over the global batch, nats per prediction
  double gradient_norm = 0;  ///< before clipping
  /// False on every rank when any rank's loss or gradients are not finite; then there was no update.
  bool finite = true;
  Share non_finite_samples;  ///< this rank's global samples with non-finite loss or gradients
  bool any_stop = false, any_failed = false;
  /// Why this rank could not use its samples; then any_failed is true on every rank.
  std::optional<Error> error;
  /// Seconds by which the gradient reduction outlasted the backward pass, plus, with sharded optimizer state,
  /// the seconds of gathering the parameters, which does not overlap with anything.
  double exposed = 0;
  double loading = 0;              ///< seconds in which the step waited for its samples
  double communication = 0;        ///< seconds in which gradients or parameters were communicated
  std::size_t gradient_bytes = 0;  ///< reduced in this step
  std::size_t gathered_bytes = 0;  ///< of parameters, the parts of all ranks
};

/// One rank's copy of the model and its part in data-parallel training: after every step, all ranks have the
/// same parameters. Functions that communicate are collective over `world`.
class Replica {
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
          Communicator world, std::optional<Communicator> host = {});

  /// Sets the initial parameters from the seed, on this rank only. Call broadcast() afterwards.
  void initialize();
  /// Sets the initial parameters from trained weights of the model's sizes, on this rank only, and throws as
  /// they do. Call broadcast() afterwards.
  void initialize(const weights::WeightSource& source);
  /// Sends rank 0's parameters to all ranks.
  void broadcast();
  /// Sends the state in rank 0's `whole` to all ranks: the parameters to every rank, the moments to the ranks
  /// that keep them. The other ranks' argument is ignored. Collective; allocates no memory for host tensors.
  void scatter_state(const TrainingTensors& whole);
  /// The reverse of scatter_state(): gathers the state of all ranks, one after the other, into rank 0's
  /// `whole`.
  void gather_state(const TrainingTensors& whole);

  /// Computes the gradients of this rank's part of the global samples [first_sample, first_sample + batch)
  /// and drops them, so that the compute's autotuner sees every product of a step. Without chunks only. No
  /// step may be in flight. Waits for the device; not collective.
  void rehearse(std::int64_t first_sample);
  /// Begins update number `step` (from 0) on the global samples [first_sample, first_sample + batch). On the
  /// host the update is done when this returns. On an asynchronous device it is only queued, and the host
  /// does not wait.
  void begin_step(std::int64_t step, std::int64_t first_sample, double learning_rate, const StepFlags& flags);
  /// Ends the oldest step in flight and returns its result. Waits for the device, under the communicator's
  /// deadline.
  StepResult end_step();
  /// Number of steps that were begun and not ended.
  std::size_t in_flight() const noexcept { return in_flight_.size(); }
  /// Most steps in flight: on an asynchronous device one step may begin before the previous one ends.
  std::size_t max_in_flight() const { return compute_.stream() != nullptr ? 2 : 1; }
  /// begin_step() and end_step(); no other step may be in flight.
  StepResult step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                  const StepFlags& flags) {
    begin_step(step, first_sample, learning_rate, flags);
    return end_step();
  }
  /// Validates this rank's share of the held-out predictions, without communication. Throws as Model does.
  Validation validate_share(const Model::ShouldStop& should_stop = Model::never_stop) {
    return model_->validate_share(world_.rank(), world_.size(), settings_.chunk > 0, should_stop);
  }
  /// Replaces this rank's result by the exact mean over all ranks.
  void all_reduce_validation(Validation& validation);
  /// See Model::left_out(); of this rank.
  std::vector<std::string> left_out() const { return model_->left_out(); }
  /// Hash over the parameters.
  std::uint64_t parameter_hash();

  /// Bytes of the model and the moments.
  std::size_t bytes() noexcept;
  const models::TensorTable& table() const noexcept { return model_->tensors().table(); }
  /// This rank's tensors: all parameters, and the moments of its part.
  TrainingTensors tensors() noexcept {
    return {model_->tensors().parameters(), optimizer_.moment1(), optimizer_.moment2()};
  }
  /// Tokens or images per step, over all ranks.
  std::int64_t predictions_per_step() const noexcept {
    return settings_.batch * workload_.predictions_per_sample();
  }

 private:
  struct InFlightStep {
    std::uint64_t number = 0;  ///< the reducer's number of this step
    std::uint64_t first_sample = 0;
    StepResult result;  ///< filled as values become known
  };

  void create_reducer();
  void synchronize_batch_norm();
  Share chunk_samples(const InFlightStep& step, std::uint64_t chunk) const;
  void compute_chunk(std::uint64_t chunk, const StepFlags& flags, InFlightStep& step);
  std::optional<Error> load_samples(const Share& samples, double& seconds);
  // Says which samples this step and the next one load.
  void prefetch(std::uint64_t first_sample);
  // The gradients of `samples`, added to those of the micro-batches before, which begin at `begin`.
  void compute_micro_batch(const Share& samples, std::uint64_t begin, bool last);
  bool sharded() const noexcept { return settings_.shard_optimizer && world_.size() > 1; }
  Share rank_part(int rank) const;
  std::vector<std::pair<std::span<float>, std::span<float>>> pair_moments(const TrainingTensors& from,
                                                                          const TrainingTensors& to) const;
  void gather_parameters(StepResult& result);

  Settings settings_;
  const Workload& workload_;
  Communicator world_, host_;
  compute::UpdateCompute<float>& compute_;
  std::unique_ptr<Model> model_;
  Optimizer<float> optimizer_;
  std::optional<Reducer> reducer_;  ///< created at the first step; reduces the extra scalars and every tensor
  std::optional<Communicator> batch_norm_world_;  ///< beside the reducer's, which is in use at the same time
  std::uint64_t reduced_steps_ = 0;
  std::deque<InFlightStep> in_flight_;
  compute::Arena<float> micro_batch_sums_;  ///< of gradients, laid out like them; empty without micro-batches
};

}  // namespace muster
