// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "models/tensor_table.hpp"
#include "training/model.hpp"
#include "training/step.hpp"
#include "weights/weight_source.hpp"

namespace muster {

/// What Strategy::copy_state() copied.
struct StateParts {
  std::int64_t step = 0;     ///< the ranks must go on after this step
  std::vector<Share> parts;  ///< of each arena; one or two
};

/// How the ranks of a job divide the training: what one of them does in a step, what they communicate, and
/// what a checkpoint holds. The loop (Trainer) and the checkpoints (Checkpointer) know a strategy by this
/// interface alone. Functions that communicate are collective over all ranks.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// The tensors of the whole model, as checkpoints hold them.
  virtual const models::TensorTable& table() const noexcept = 0;
  /// Tokens or images per step, over all ranks.
  virtual std::int64_t predictions_per_step() const noexcept = 0;

  /// The setting by which another number of ranks gives other bits, as "without --deterministic"; empty when
  /// it gives the same.
  virtual std::string rank_dependence() const = 0;

  /// Which tensors gather_state() fills.
  virtual CheckpointParts checkpoint_parts() const = 0;

  /// Sets the initial parameters from the seed, on this rank only. Call broadcast() afterwards.
  virtual void initialize() = 0;
  /// Sets the initial parameters from trained weights of the model's sizes, on this rank only, and throws as
  /// they do. Call broadcast() afterwards.
  virtual void initialize(const weights::WeightSource& source) = 0;
  /// Sends rank 0's parameters to all ranks.
  virtual void broadcast() = 0;
  /// Sends the state in rank 0's `whole` to all ranks, each of which takes what it keeps. The other ranks'
  /// argument is ignored. No step may be in flight.
  virtual void scatter_state(const TrainingTensors& whole) = 0;
  /// The reverse of scatter_state(): gathers the state of all ranks, which have the same parameters, into
  /// rank 0's `whole`. Any strategy on any number of ranks can resume from it.
  virtual void gather_state(const TrainingTensors& whole) = 0;
  /// For a run that goes on without lost ranks: copies what this rank has of the state of all ranks after
  /// step `step`, the last ended one, into `whole`, without communication. Nothing when it keeps none.
  virtual std::optional<StateParts> copy_state(const TrainingTensors& /*whole*/, std::int64_t /*step*/) {
    return std::nullopt;
  }
  /// Before that, when ranks keep parts of the state and the loss interrupted the last step of some before
  /// its update (share_gradients()): sends the reduced gradients of the last step to rank `to` of `left`.
  virtual void send_gradients(Communicator& /*left*/, int /*to*/) {}
  /// Receives them from rank `from`, and updates what this rank keeps. The interrupted step is then in flight
  /// and can be ended alone.
  virtual void update_with_gradients(Communicator& /*left*/, int /*from*/) {}
  /// True when steps in flight can be ended after the loss of a rank, without the others.
  virtual bool ends_steps_alone() const { return true; }
  /// Hash over this rank's parameters.
  virtual std::uint64_t parameter_hash() = 0;

  /// Computes the gradients of a step on this rank and drops them, so that the compute's autotuner sees every
  /// product of a step. No step may be in flight. Waits for the device; not collective.
  virtual void rehearse(std::int64_t first_sample) = 0;
  /// Begins update number `step` (from 0) on the global samples [first_sample, first_sample + batch). The
  /// update may be only queued when this returns.
  virtual void begin_step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                          const StepFlags& flags) = 0;
  /// Ends the oldest step in flight and returns its result. Every wait is under the communicator's deadline.
  virtual StepResult end_step() = 0;
  /// Number of steps that were begun and not ended.
  virtual std::size_t in_flight() const noexcept = 0;
  /// Most steps in flight.
  virtual std::size_t max_in_flight() const = 0;
  /// Gives all ranks the same parameters, before a validation or a checkpoint. No step may be in flight.
  /// Nothing is done, and nothing returned, when they have the same.
  virtual std::optional<Synchronization> synchronize() { return std::nullopt; }

  /// Validates this rank's share of the held-out predictions, without communication. Throws as Model does.
  virtual Validation validate_share(const Model::ShouldStop& should_stop = Model::never_stop) = 0;
  /// Replaces this rank's result by the exact mean over all ranks.
  virtual void all_reduce_validation(Validation& validation) = 0;
  /// A picture of what the ranks did in the last step, on rank 0, for the report; maybe none. Collective.
  virtual std::string draw_last_step() { return ""; }
  /// See Model::left_out(); of this rank.
  virtual std::vector<std::string> left_out() const = 0;
};

}  // namespace muster
