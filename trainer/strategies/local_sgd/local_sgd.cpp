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

Share samples_of(const Replica::Settings& training, int worker, int workers) {
  return share_of(static_cast<std::uint64_t>(training.batch), worker, workers);
}

/// A worker is a data-parallel group on its samples of each step.
Replica::Settings worker_settings(Replica::Settings training, int worker, int workers) {
  training.sample_stride = training.batch;
  training.batch = static_cast<int>(samples_of(training, worker, workers).count());
  training.update_after_reduction = false;  // a worker's gradients are its own
  return training;
}

}  // namespace

template <typename Real>
LocalSgd::LocalSgd(const Settings& settings, const Replica::Settings& training, const Workload& workload,
                   compute::Compute<Real>& compute, const Communicator& world, const Communicator& host)
    : settings_(settings),
      batch_(training.batch),
      share_(
          samples_of(training, world.rank() / settings.worker_ranks, world.size() / settings.worker_ranks)),
      weight_(static_cast<double>(share_.count()) / static_cast<double>(training.batch)),
      world_(world),
      host_(host),
      worker_world_(world.split(world.rank() / settings.worker_ranks)),
      worker_host_(host.split(world.rank() / settings.worker_ranks)),
      workers_(settings.worker_ranks == 1 ? world : world.split(world.rank() % settings.worker_ranks)),
      workers_host_(settings.worker_ranks == 1 ? host : host.split(world.rank() % settings.worker_ranks)),
      scalars_(host.split(0)),
      compute_(compute),
      worker_(worker_settings(training, workers_.rank(), workers_.size()), workload, compute, worker_world_,
              worker_host_),
      moved_(settings.sends_bfloat16 ? table().arena_size : 0) {
  if (settings.outer.nesterov) {
    outer_.emplace(settings.outer, table().arena_size, table().trained_size, compute.threads());
    if (!compute.memory().is_host()) staging_ = compute::Arena<float>(table().arena_size);
  }
  if (settings.elastic) snapshot_.emplace(table().arena_size, checkpoint_parts());
}

template LocalSgd::LocalSgd(const Settings&, const Replica::Settings&, const Workload&,
                            compute::Compute<float>&, const Communicator&, const Communicator&);
template LocalSgd::LocalSgd(const Settings&, const Replica::Settings&, const Workload&,
                            compute::Compute<bfloat16>&, const Communicator&, const Communicator&);

MemorySegments LocalSgd::estimate_memory(const Workload& workload, const Settings& settings,
                                         const Replica::Settings& training, int rank, int ranks) {
  const std::uint64_t tensors = workload.table().arena_size * sizeof(float);
  const int of_worker = settings.worker_ranks;
  MemorySegments segments = muster::estimate_memory(
      workload, worker_settings(training, rank / of_worker, ranks / of_worker), rank % of_worker, of_worker);
  if (settings.outer.nesterov && !training.on_device) {
    segments.push_back({"synchronized parameters", tensors});
    segments.push_back({"outer momentum", tensors});
    if (settings.sends_bfloat16) segments.push_back({"what workers send", tensors / 2});
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
  if (workers_.rank() == 0) worker_.scatter_state(whole);
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
  for (const std::span<float> moment : {own.moment1, own.moment2}) average(moment);
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
  const double weight = weight_ / settings_.worker_ranks;  // each of its ranks has the same values
  step.scalars = {step.result.loss * weight, step.result.gradient_norm * weight,
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
  if (settings_.worker_ranks == 1) {  // which exchanged no gradients
    result.exposed = result.communication = 0;
    result.gradient_bytes = 0;
  }
  result.exposed += step.waited;
  result.communication += step.waited;
  result.gradient_bytes += sizeof step.scalars;
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

void LocalSgd::average(std::span<float> values) {
  const bool is_leader = worker_world_.rank() == 0;
  if (is_leader) workers_.all_reduce(values, premul_sum(weight_), compute_.stream());
  if (settings_.worker_ranks > 1) worker_world_.broadcast(values, 0, compute_.stream());
}

void LocalSgd::average_rounded(std::span<float> parameters) {
  const std::span<const float> from = outer_->parameters();
  const auto weight = static_cast<float>(weight_);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    moved_.data()[i] = bfloat16((from[i] - parameters[i]) * weight);
  if (worker_host_.rank() == 0) workers_host_.all_reduce(moved_.span());
  if (settings_.worker_ranks > 1) worker_host_.broadcast(moved_.span(), 0);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] = from[i] - static_cast<float>(moved_.data()[i]);
}

void LocalSgd::take_outer_step(std::span<float> parameters) {
  if (settings_.sends_bfloat16) average_rounded(parameters);
  outer_->update(parameters);
}

Synchronization LocalSgd::average_parameters() {
  const auto from = std::chrono::steady_clock::now();
  const std::span<float> parameters = tensors().parameters;
  if (!settings_.sends_bfloat16) average(parameters);
  if (outer_ && staging_.size() > 0) {
    world_.synchronize(compute_.stream());
    compute_.memory().copy_out(staging_.data(), parameters.data(), parameters.size_bytes());
    take_outer_step(staging_.span());
    compute_.memory().copy_in(parameters.data(), staging_.data(), parameters.size_bytes());
  } else if (outer_) {
    take_outer_step(parameters);
  }
  worker_.round_parameters();
  steps_since_ = 0;
  take_snapshot(begun_steps_);
  const bool is_queued = compute_.stream() != nullptr && !outer_;  // so it cannot be timed here
  return {settings_.sends_bfloat16 ? moved_.span().size_bytes() : parameters.size_bytes(),
          is_queued ? 0 : seconds_since(from)};
}

void LocalSgd::all_reduce_validation(Validation& validation) { average_over_ranks(host_, validation); }

}  // namespace muster
