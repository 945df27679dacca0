// SPDX-License-Identifier: Apache-2.0
#include "strategies/local_sgd/local_sgd.hpp"

#include <chrono>
#include <utility>

#include "strategies/data_parallel/replica_memory.hpp"

namespace muster {
namespace {

double seconds_since(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

Share samples_of(const Replica::Settings& training, int rank, int ranks) {
  return share_of(static_cast<std::uint64_t>(training.batch), rank, ranks);
}

/// A worker is a data-parallel group of one rank on its samples of each step.
Replica::Settings worker_settings(Replica::Settings training, int rank, int ranks) {
  training.sample_stride = training.batch;
  training.batch = static_cast<int>(samples_of(training, rank, ranks).count());
  training.update_after_reduction = false;  // a worker's gradients are its own
  return training;
}

}  // namespace

template <typename Real>
LocalSgd::LocalSgd(const Settings& settings, const Replica::Settings& training, const Workload& workload,
                   compute::Compute<Real>& compute, Communicator world, Communicator host)
    : settings_(settings),
      batch_(training.batch),
      share_(samples_of(training, world.rank(), world.size())),
      weight_(static_cast<double>(share_.count()) / static_cast<double>(training.batch)),
      world_(world),
      host_(host),
      scalars_(host.split(0)),
      compute_(compute),
      worker_(worker_settings(training, world.rank(), world.size()), workload, compute,
              world.split(world.rank()), host.split(host.rank())) {
  if (settings.outer.nesterov) {
    outer_.emplace(settings.outer, table().arena_size, table().trained_size, compute.threads());
    if (!compute.memory().is_host()) staging_ = compute::Arena<float>(table().arena_size);
  }
  if (settings.elastic) snapshot_.emplace(table().arena_size, checkpoint_parts());
}

template LocalSgd::LocalSgd(const Settings&, const Replica::Settings&, const Workload&,
                            compute::Compute<float>&, Communicator, Communicator);
template LocalSgd::LocalSgd(const Settings&, const Replica::Settings&, const Workload&,
                            compute::Compute<bfloat16>&, Communicator, Communicator);

MemorySegments LocalSgd::estimate_memory(const Workload& workload, const Settings& settings,
                                         const Replica::Settings& training, int rank, int ranks) {
  const std::uint64_t tensors = workload.table().arena_size * sizeof(float);
  MemorySegments segments = muster::estimate_memory(workload, worker_settings(training, rank, ranks), 0, 1);
  if (settings.outer.nesterov && !training.on_device) {
    segments.push_back({"synchronized parameters", tensors});
    segments.push_back({"outer momentum", tensors});
  }
  if (settings.elastic && !training.on_device) {
    const std::size_t arenas = 1 + Optimizer<float>::moment_count(training.optimizer.kind);
    segments.push_back({"copy for lost ranks", (arenas + (settings.outer.nesterov ? 1 : 0)) * tensors});
  }
  std::erase_if(segments, [&](MemorySegment& segment) {
    const bool is_copy = segment.name == "copy for checkpoints";
    if (is_copy && settings.outer.nesterov) segment.bytes += tensors;
    return is_copy && rank != 0;
  });
  return segments;
}

CheckpointParts LocalSgd::checkpoint_parts() const {
  CheckpointParts parts = worker_.checkpoint_parts();
  parts.outer_momentum = outer_.has_value();
  return parts;
}

void LocalSgd::start_round() {
  steps_since_ = 0;
  if (!outer_) return;
  const std::span<const float> parameters = tensors().parameters;
  if (staging_.size() > 0)
    compute_.memory().copy_out(staging_.data(), parameters.data(), parameters.size_bytes());
  outer_->start_from(staging_.size() > 0 ? staging_.span() : parameters);
}

void LocalSgd::take_snapshot(std::optional<std::int64_t> step) {
  if (!snapshot_) return;
  if (compute_.stream() != nullptr) world_.synchronize(compute_.stream());
  const TrainingTensors copies = snapshot_->tensors();
  worker_.copy_state(copies, 0);
  if (outer_) std::copy(outer_->momentum().begin(), outer_->momentum().end(), copies.outer_momentum.begin());
  snapshot_->taken(step);
}

std::optional<StateParts> LocalSgd::copy_state(const TrainingTensors& whole, std::int64_t step) {
  if (!snapshot_) return std::nullopt;
  return StateParts{snapshot_->copy_to(whole, step), {{0, table().arena_size}}};
}

void LocalSgd::broadcast() {
  world_.broadcast(tensors().parameters, 0, compute_.stream());
  worker_.round_parameters();
  start_round();
  take_snapshot(std::nullopt);
}

void LocalSgd::scatter_state(const TrainingTensors& whole) {
  if (world_.rank() == 0) worker_.scatter_state(whole);
  const TrainingTensors own = tensors();
  for (const std::span<float> moment : {own.moment1, own.moment2})
    world_.broadcast(moment, 0, compute_.stream());
  broadcast();
  if (!outer_) return;
  const std::span<float> momentum = outer_->momentum();
  if (world_.rank() == 0)
    std::copy(whole.outer_momentum.begin(), whole.outer_momentum.end(), momentum.begin());
  host_.broadcast(momentum, 0);
  take_snapshot(std::nullopt);
}

void LocalSgd::gather_state(const TrainingTensors& whole) {
  const TrainingTensors own = tensors();
  for (const std::span<float> moment : {own.moment1, own.moment2})
    world_.all_reduce(moment, premul_sum(weight_), compute_.stream());
  world_.synchronize(compute_.stream());
  if (world_.rank() != 0) return;
  worker_.gather_state(whole);
  if (outer_) std::copy(outer_->momentum().begin(), outer_->momentum().end(), whole.outer_momentum.begin());
}

void LocalSgd::begin_step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                          const StepFlags& flags) {
  if (snapshot_) snapshot_->begin(step);
  begun_steps_ = step + 1;
  worker_.begin_step(step, first_sample + static_cast<std::int64_t>(share_.begin), learning_rate, flags);
  InFlightStep& begun = in_flight_.emplace_back();
  begun.waited = std::exchange(waited_, 0);
  ++steps_since_;
  // On the host, the worker's step has ended.
  const bool on_host = compute_.stream() == nullptr;
  if (on_host) start_reduction(begun);
  if ((step + 1) % settings_.sync_every == 0) begun.synchronization = average_parameters();
  if (on_host) begun.result.done = std::chrono::steady_clock::now();
}

void LocalSgd::start_reduction(InFlightStep& step) {
  step.result = worker_.end_step();
  step.scalars = {step.result.loss * weight_, step.result.gradient_norm * weight_,
                  step.result.finite ? 0.0 : 1.0, step.result.any_stop ? 1.0 : 0.0,
                  step.result.any_failed ? 1.0 : 0.0};
  step.reduction = scalars_.all_reduce_async(step.scalars);
}

StepResult LocalSgd::end_step() {
  InFlightStep& step = in_flight_.front();
  if (compute_.stream() != nullptr) start_reduction(step);
  const auto from = std::chrono::steady_clock::now();
  step.reduction.wait();
  waited_ += seconds_since(from);
  StepResult result = step.result;
  result.loss = step.scalars[loss_scalar];
  result.gradient_norm = step.scalars[norm_scalar];
  result.finite = step.scalars[non_finite_scalar] == 0;
  result.any_stop = step.scalars[stop_scalar] > 0;
  result.any_failed = step.scalars[failed_scalar] > 0;
  result.exposed = result.communication = step.waited;
  result.gradient_bytes = sizeof step.scalars;
  if (step.synchronization) {
    result.synchronized = true;
    result.exposed += step.synchronization->seconds;
    result.communication += step.synchronization->seconds;
    result.gradient_bytes += step.synchronization->bytes;
  }
  in_flight_.pop_front();
  return result;
}

std::optional<Synchronization> LocalSgd::synchronize() {
  if (steps_since_ == 0) return std::nullopt;
  return average_parameters();
}

Synchronization LocalSgd::average_parameters() {
  const auto from = std::chrono::steady_clock::now();
  const std::span<float> parameters = tensors().parameters;
  world_.all_reduce(parameters, premul_sum(weight_), compute_.stream());
  if (outer_ && staging_.size() > 0) {
    world_.synchronize(compute_.stream());
    compute_.memory().copy_out(staging_.data(), parameters.data(), parameters.size_bytes());
    outer_->update(staging_.span());
    compute_.memory().copy_in(parameters.data(), staging_.data(), parameters.size_bytes());
  } else if (outer_) {
    outer_->update(parameters);
  }
  worker_.round_parameters();
  steps_since_ = 0;
  take_snapshot(begun_steps_);
  const bool is_queued = compute_.stream() != nullptr && !outer_;  // so it cannot be timed here
  return {parameters.size_bytes(), is_queued ? 0 : seconds_since(from)};
}

void LocalSgd::all_reduce_validation(Validation& validation) { average_over_ranks(host_, validation); }

}  // namespace muster
