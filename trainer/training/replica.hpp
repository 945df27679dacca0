// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "checkpoint/checkpoint.hpp"
#include "compute/compute.hpp"
#include "muster/muster.hpp"
#include "optimizer/optimizer.hpp"
#include "training/workload.hpp"

namespace muster {

/// What this rank wants the others to know; the counts travel with the gradients.
struct StepNotes {
  bool stop = false;    ///< a signal came
  bool failed = false;  ///< something else went wrong on this rank
};

struct StepResult {
  double loss = 0;           ///< mean over the global batch, nats per prediction
  double gradient_norm = 0;  ///< before clipping
  bool finite = true;  ///< false on every rank when a loss or gradient of any rank is not finite; nothing was
                       ///< updated then
  Share not_finite;    ///< of the global samples: those of this rank that made it so; empty when none did
  bool any_stop = false, any_failed = false;
  std::optional<Error> error;  ///< what kept this rank from using its samples: any_failed on every rank then
  /// Seconds that the reduction of the gradients took beyond the backward pass, and with sharded optimizer
  /// state the gathering of the parameters, which nothing hides.
  double exposed = 0;
  double communication = 0;        ///< seconds in which gradients or parameters were on their way
  std::size_t gradient_bytes = 0;  ///< as they travelled
  std::size_t gathered_bytes = 0;  ///< of parameters, all ranks' parts
};

/// One rank's copy of the model and its part in data-parallel training: the same parameters on every rank
/// after every step. All functions that communicate are collective over `world`.
class Replica {
 public:
  struct Settings {
    AdamwSettings adamw;
    int batch = 12;  ///< global samples per step, at least one for each rank
    std::uint64_t seed = 0;
    /// Samples in a chunk, above 0: gradients are computed chunk by chunk and added in a fixed tree, so that
    /// a step has the same bits for any number of ranks (ReducerOptions::chunks). 0: each rank computes its
    /// samples at once.
    int chunk = 0;
    /// ZeRO-1 (Rajbhandari et al., arXiv 1910.02054, section 5.1): each rank keeps the optimizer's moments of
    /// its part of the parameters only (optimizer_part()), updates that part, and gets the others'. Every
    /// rank still has all reduced gradients, which makes all bits those of a step without it: the norm is
    /// summed in the same order, and the reducer adds as ever. The ranks send 3(n-1)/n times the parameters'
    /// bytes a step for it, instead of 2(n-1)/n.
    bool shard_optimizer = false;
    /// For plan_memory(): of a number that the model computes in.
    std::size_t real_bytes = sizeof(float);
    /// The tensors lie in a device's memory, and are reduced there.
    bool on_device = false;
  };
  /// Scalars that travel before the gradients.
  static constexpr std::size_t extra_slots = compute::step_slots;
  /// Samples that `rank` of `ranks` computes at once.
  static std::uint64_t samples_at_once(const Settings& settings, int rank, int ranks);
  static ReducerOptions reducer_options(const Settings& settings);

  /// The workload must outlive it. `world` works on the compute's memory, `host` on the host's; without it
  /// they are the same. The model computes in Real, float or bfloat16, of settings.real_bytes.
  template <typename Real>
  Replica(const Settings& settings, const Workload& workload, compute::Compute<Real>& compute,
          Communicator world, std::optional<Communicator> host = {});

  /// Initial parameters from the seed, on this rank only: broadcast() follows.
  void initialize();
  /// Rank 0's parameters to all.
  void broadcast();
  /// A whole state on rank 0 to all ranks: the parameters to everybody, moments to those that keep them.
  /// Others' argument is ignored. Collective; takes no memory.
  void spread(const TrainingTensors& whole);
  /// The reverse: from all ranks, one after the other, to where `whole` has room for it on rank 0.
  void collect(const TrainingTensors& whole);

  /// Begins the update after `step` others, on the global samples [first_sample, first_sample + batch): on
  /// the host it is done when this returns; a device that works by itself has then been asked for all of it,
  /// and the host has not waited.
  void begin_step(std::int64_t step, std::int64_t first_sample, double learning_rate, const StepNotes& notes);
  /// What has become of the oldest step that was begun and not ended. Waits for the device, under the
  /// communicator's deadline.
  StepResult end_step();
  /// Steps that were begun and not ended.
  std::size_t under_way() const noexcept { return under_way_.size(); }
  /// So many may be: on a device that works by itself one step may be begun before the one before is ended.
  std::size_t most_under_way() const { return compute_.stream() != nullptr ? 2 : 1; }
  /// Both, where nothing else is under way.
  StepResult step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                  const StepNotes& notes) {
    begin_step(step, first_sample, learning_rate, notes);
    return end_step();
  }
  /// What this rank's share of the held-out predictions gives; no communication. Throws as Model does.
  Validation validation_share(const Model::Cut& cut = Model::never) {
    return model_->validation_share(world_.rank(), world_.size(), settings_.chunk > 0, cut);
  }
  /// Every rank's share to the exact mean over all.
  void add_up(Validation& validation);
  /// Hash over the parameters.
  std::uint64_t parameter_hash();

  /// Of the model and the moments.
  std::size_t bytes() noexcept;
  const models::TensorTable& table() const noexcept { return model_->tensors().table(); }
  /// What this rank has: all parameters, and the moments of its part.
  TrainingTensors tensors() noexcept {
    return {model_->tensors().parameters(), optimizer_.moment1(), optimizer_.moment2()};
  }
  /// Tokens, or images.
  std::int64_t predictions_per_step() const noexcept {
    return settings_.batch * workload_.predictions_per_sample();
  }

 private:
  struct BegunStep {
    std::uint64_t number = 0;  ///< the reducer's
    std::uint64_t first_sample = 0;
    StepResult result;  ///< as far as it is known
  };

  void connect();
  Share samples_of(const BegunStep& step, std::uint64_t chunk) const;
  void compute_chunk(std::uint64_t chunk, const StepNotes& notes, BegunStep& step);
  bool sharded() const noexcept { return settings_.shard_optimizer && world_.size() > 1; }
  Share part_of(int rank) const;
  void gather_parameters(StepResult& result);

  Settings settings_;
  const Workload& workload_;
  Communicator world_, host_;
  compute::UpdateCompute<float>& compute_;
  std::unique_ptr<Model> model_;
  Adamw<float> optimizer_;
  std::optional<Reducer> reducer_;  ///< from the first step on; of the extra scalars and every tensor
  std::uint64_t reduced_steps_ = 0;
  std::deque<BegunStep> under_way_;
};

}  // namespace muster
