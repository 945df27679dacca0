// SPDX-License-Identifier: Apache-2.0
#include "strategies/parameter_server/parameter_server_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "files/hash.hpp"

namespace muster {
namespace {

double elapsed_seconds(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

/// A process may train several times, and each time has servers of its own.
std::string next_name() {
  static int count = 0;
  return fmt::format("training {}", ++count);
}

}  // namespace

template <typename Real>
ParameterServerTraining::ParameterServerTraining(const Settings& settings, const Replica::Settings& training,
                                                 const Workload& workload, compute::Compute<Real>& compute,
                                                 Communicator host)
    : HostUpdates(host.rank() < settings.servers ? 0 : settings.update_threads),
      settings_(settings),
      training_(training),
      workload_(workload),
      host_(std::move(host)),
      compute_(choose(compute)),
      table_(workload.table()),
      tasks_(tasks_per_step(settings, training, host_.size())),
      name_(next_name()) {
  std::vector<int> workers(static_cast<std::size_t>(host_.size() - settings.servers));
  std::iota(workers.begin(), workers.end(), settings.servers);
  settings.job->survive_loss_of(workers);
  const bool is_server = host_.rank() < settings.servers;
  Communicator servers = host_.split(is_server ? 0 : 1);
  if (is_server) {
    slice_.emplace(table_, ParameterServer::slice_of(table_.arena_size, options(), host_.rank()),
                   slice_settings(), compute,
                   settings.servers > 1 ? std::optional(std::move(servers)) : std::nullopt);
    start_server();
  } else {
    compute.set_label_smoothing(training.label_smoothing);
    model_ = build(workload, compute, task_samples(training, 0, tasks_).count(), Replica::extra_scalars,
                   compute.transfer_memory());
  }
  client_.emplace(*settings.job, table_.arena_size, options());
}

template ParameterServerTraining::ParameterServerTraining(const Settings&, const Replica::Settings&,
                                                          const Workload&, compute::Compute<float>&,
                                                          Communicator);
template ParameterServerTraining::ParameterServerTraining(const Settings&, const Replica::Settings&,
                                                          const Workload&, compute::Compute<bfloat16>&,
                                                          Communicator);

ParameterServerOptions ParameterServerTraining::options() const {
  ParameterServerOptions options;
  options.servers = settings_.servers;
  options.staleness = settings_.staleness;
  options.tasks_per_clock = tasks_;
  options.deals_tasks = true;
  options.alignment = compute::norm_block;
  options.wire_type = settings_.sends_bfloat16 ? DataType::bfloat16 : DataType::float32;
  options.name = name_;
  return options;
}

SliceOptimizer::Settings ParameterServerTraining::slice_settings() const {
  return {training_.optimizer, is_synchronous(), tasks_};
}

std::uint64_t ParameterServerTraining::tasks_per_step(const Settings& settings,
                                                      const Replica::Settings& training, int ranks) {
  if (training.chunk > 0) return Replica::reducer_options(training).chunks;
  return static_cast<std::uint64_t>(ranks - settings.servers);
}

// Of a step, whose samples count from 0. The first task has the most samples.
Share ParameterServerTraining::task_samples(const Replica::Settings& training, std::uint64_t index,
                                            std::uint64_t tasks) {
  const auto batch = static_cast<std::uint64_t>(training.batch),
             chunk = static_cast<std::uint64_t>(training.chunk);
  if (chunk == 0) return share_of(batch, static_cast<int>(index), static_cast<int>(tasks));
  return {index * chunk, std::min((index + 1) * chunk, batch)};
}

void ParameterServerTraining::start_server() {
  const auto update = [this](const ParameterUpdate& one) {
    const SliceOptimizer::Outcome outcome = slice_->update(one);
    if (!is_synchronous() || host_.rank() != 0) return;
    double sums[sum_count] = {};
    sums[norm_sum] = outcome.norm;
    sums[non_finite_sum] = outcome.finite ? 0 : 1;
    server_->add_sums(sums);
  };
  server_.emplace(*settings_.job, table_.arena_size, slice_->arrays(), update, options());
}

MemorySegments ParameterServerTraining::estimate_memory(const Workload& workload, const Settings& settings,
                                                        const Replica::Settings& training, int rank,
                                                        int ranks) {
  const std::uint64_t tasks = tasks_per_step(settings, training, ranks);
  const models::TensorTable table = workload.table();
  const bool offloads = settings.update_threads > 0;
  if (rank >= settings.servers) {
    MemorySegments model = workload.memory(task_samples(training, 0, tasks).count(), Replica::extra_scalars,
                                           training.real_bytes);
    if (prefetches(settings))
      model.push_back(
          {"parameters for the next task", table.arena_size * sizeof(float), false, false, offloads});
    if (!offloads) return model;
    model = estimate_offloaded_model(workload, model);
    model.push_back({"parameters on the host", table.arena_size * sizeof(float), false, false, true});
    model.push_back(
        {"rounded parameters on the host", table.arena_size * sizeof(bfloat16), false, false, true});
    return model;
  }
  ParameterServerOptions options;
  options.servers = settings.servers;
  options.alignment = compute::norm_block;
  const Share slice = ParameterServer::slice_of(table.arena_size, options, rank);
  const auto workers = static_cast<std::uint64_t>(ranks - settings.servers);
  MemorySegments segments;
  segments.push_back(
      {"slice of the parameters and moments", SliceOptimizer::bytes(slice, training.optimizer.kind)});
  const std::uint64_t gradients = workers + (settings.staleness == 0 ? tasks : 0);
  segments.push_back({"gradients that arrive", gradients * slice.count() * sizeof(float)});
  const std::size_t tensors = 1 + Optimizer<float>::moment_count(training.optimizer.kind);
  if (rank == 0) segments.push_back({"copy for checkpoints", tensors * table.arena_size * sizeof(float)});
  for (MemorySegment& segment : segments) segment.is_offloaded = offloads;
  return segments;
}

void ParameterServerTraining::initialize() {
  models::ModelTensors<float> tensors(table_);
  tensors.initialize(training_.seed);
  initial_.assign(tensors.parameters().begin(), tensors.parameters().end());
}

void ParameterServerTraining::initialize(const weights::WeightSource& source) {
  initial_.assign(table_.arena_size, 0);
  source.read(initial_);
}

void ParameterServerTraining::broadcast() {
  if (host_.rank() == 0) client_->write(0, std::exchange(initial_, {}));
  host_.barrier();
}

void ParameterServerTraining::scatter_state(const TrainingTensors& whole) {
  if (host_.rank() == 0) {
    client_->write(0, whole.parameters);
    client_->write(1, whole.moment1);
    if (checkpoint_parts().moments == 2) client_->write(2, whole.moment2);
  }
  host_.barrier();
}

void ParameterServerTraining::gather_state(const TrainingTensors& whole) {
  if (host_.rank() == 0) {
    client_->read(0, whole.parameters);
    client_->read(1, whole.moment1);
    if (checkpoint_parts().moments == 2) client_->read(2, whole.moment2);
  }
  host_.barrier();  // before an update changes them
}

// As float32 also when they are sent as bfloat16. No step is in flight.
void ParameterServerTraining::read_parameters() {
  if (!model_) copy_.resize(table_.arena_size);
  client_->read(0, model_ ? model_->tensors().parameters() : std::span<float>(copy_));
  if (model_) use_parameters();
  finish_upload();  // the next pull can be before any gradients
  pulled_.reset();
}

void ParameterServerTraining::use_parameters() {
  model_->tensors().round_parameters(compute_);
  upload({0, table_.arena_size});
}

std::uint64_t ParameterServerTraining::parameter_hash() {
  read_parameters();
  const std::span<const float> parameters =
      model_ ? std::span<const float>(model_->tensors().parameters()) : copy_;
  const std::uint64_t hash = hash_bytes(parameters.data(), parameters.size_bytes());
  copy_ = {};
  return hash;
}

void ParameterServerTraining::rehearse(std::int64_t first_sample) {
  if (!model_) return;
  model_->load_samples(static_cast<std::uint64_t>(first_sample), task_samples(training_, 0, tasks_).count());
  model_->gradients(1, [](std::size_t) {});
}

std::size_t ParameterServerTraining::max_in_flight() const {
  // A server has nothing to compute ahead of the workers.
  if (!model_) return 1;
  if (settings_.staleness) return static_cast<std::size_t>(*settings_.staleness) + 1;
  // As many as are not done, so that the loop ends those that are without waiting.
  const std::uint64_t completed = client_->completed();
  return 1 + static_cast<std::size_t>(
                 std::count_if(in_flight_.begin(), in_flight_.end(),
                               [&](const InFlightStep& step) { return step.clock >= completed; }));
}

void ParameterServerTraining::begin_step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                                         const StepFlags& flags) {
  if (first_step_ < 0) first_step_ = step;
  in_flight_.push_back({static_cast<std::uint64_t>(step - first_step_),
                        step,
                        static_cast<std::uint64_t>(first_sample),
                        learning_rate,
                        {}});
  if (flags.stop || flags.failed) {
    double sums[sum_count] = {};
    sums[stop_sum] = flags.stop ? 1 : 0;
    sums[failed_sum] = flags.failed ? 1 : 0;
    client_->add_sums(sums);
  }
  if (model_) compute_tasks();
}

void ParameterServerTraining::compute_tasks() {
  while (const auto task = client_->take(in_flight_.back().clock)) compute_task(*task);
}

void ParameterServerTraining::pull(const ParameterTask& task, StepResult& result) {
  if (is_synchronous() && pulled_ == task.clock) return;
  const auto from = std::chrono::steady_clock::now();
  client_->pull(task.clock, model_->tensors().parameters());
  use_parameters();
  pulled_ = task.clock;
  if (prefetches(settings_)) client_->prefetch(task.clock + 1);
  result.exposed += elapsed_seconds(from);
}

// Gradients of a step's mean are pushed as they become known; a mean over the task's samples is pushed whole,
// once it is clipped.
void ParameterServerTraining::compute_task(const ParameterTask& task) {
  InFlightStep& step = in_flight_.at(task.clock - in_flight_.front().clock);
  pull(task, step.result);
  const Share part = task_samples(training_, task.index, tasks_);
  const Share samples{step.first_sample + part.begin, step.first_sample + part.end};
  const double share = static_cast<double>(part.count()) / training_.batch;
  const double scale = 1.0 / static_cast<double>(predictions_per_step());
  const auto from = std::chrono::steady_clock::now();
  try {
    model_->load_samples(samples.begin, samples.count());
  } catch (const Error& error) {
    if (!step.result.error) step.result.error = error;
  }
  step.result.loading += elapsed_seconds(from);
  compute_.begin_step(1, 1);
  const auto gradients = model_->tensors().extra_and_gradients();
  model_->gradients(static_cast<float>(is_synchronous() ? scale : scale / share), [&](std::size_t tensor) {
    const std::span<const float> gradient = gradients[tensor + 1];
    compute_.check_finite(gradient.data(), gradient.size(), 0, nullptr);
    if (is_synchronous()) client_->push_part(task, table_.tensors[tensor].offset, gradient);
  });
  float slots[Replica::extra_scalars];
  compute_.end_chunk(0, scale, false, step.result.error.has_value(), slots);
  const bool finite = compute_.outcome().chunk_is_finite[0];
  if (!finite) {
    if (step.result.non_finite_samples.count() == 0) step.result.non_finite_samples = samples;
    step.result.non_finite_samples.begin = std::min(step.result.non_finite_samples.begin, samples.begin);
    step.result.non_finite_samples.end = std::max(step.result.non_finite_samples.end, samples.end);
  }
  std::vector<double> arguments{step.learning_rate, static_cast<double>(step.step), share,
                                finite ? 0.0 : 1.0};
  std::vector<double> sums(sum_count);
  sums[loss_sum] = double{slots[compute::loss_slot]};
  sums[non_finite_sum] = finite ? 0 : 1;
  sums[failed_sum] = step.result.error ? 1 : 0;
  if (is_synchronous()) return client_->end_push(task, arguments, sums);
  sums[norm_sum] = share;
  push_mean_gradient(task, std::move(arguments), std::move(sums));
}

// sums[norm_sum] is the task's share.
void ParameterServerTraining::push_mean_gradient(const ParameterTask& task, std::vector<double> arguments,
                                                 std::vector<double> sums) {
  const std::span<float> gradient = model_->tensors().gradients();
  const double norm = std::sqrt(compute_.sum_of_squares(gradient.data(), table_.trained_size, 0));
  const double clip = training_.optimizer.clip;
  if (clip > 0 && norm > clip) {
    const auto factor = static_cast<float>(clip / norm);
    for (float& value : gradient.first(table_.trained_size)) value *= factor;
  }
  sums[norm_sum] *= norm;
  client_->push(task, gradient, arguments, sums);
}

StepResult ParameterServerTraining::end_step() {
  const auto from = std::chrono::steady_clock::now();
  auto sums = client_->wait_for(in_flight_.front().clock);
  const double waited = elapsed_seconds(from);
  for (; !sums; sums = client_->wait_for(in_flight_.front().clock)) compute_tasks();
  sums->resize(sum_count);
  StepResult result = std::move(in_flight_.front().result);
  in_flight_.pop_front();
  result.loss = (*sums)[loss_sum];
  result.gradient_norm = (*sums)[norm_sum];
  result.finite = (*sums)[non_finite_sum] == 0;
  result.any_stop = (*sums)[stop_sum] > 0;
  result.any_failed = (*sums)[failed_sum] > 0;
  if (model_) {
    result.exposed += waited;
    result.communication = result.exposed;
  } else {
    const Share slice = ParameterServer::slice_of(table_.arena_size, options(), host_.rank());
    const std::size_t bytes = slice.count() * (settings_.sends_bfloat16 ? sizeof(bfloat16) : sizeof(float));
    const auto pulls = is_synchronous() ? static_cast<std::size_t>(host_.size() - settings_.servers) : tasks_;
    result.gradient_bytes = tasks_ * bytes;
    result.gathered_bytes = pulls * bytes;
  }
  return result;
}

// The workers that are left share the held-out predictions: all ranks gather the same list of them.
Validation ParameterServerTraining::validate_share(const Model::ShouldStop& should_stop) {
  const std::int32_t mine = model_ ? 1 : 0;
  std::vector<std::int32_t> works(static_cast<std::size_t>(host_.size()));
  host_.all_gather(std::span<const std::int32_t>(&mine, 1), std::span(works));
  if (!model_) return {};
  read_parameters();
  const auto before = works.begin() + host_.rank();
  return model_->validate_share(std::accumulate(works.begin(), before, 0),
                                std::accumulate(works.begin(), works.end(), 0), training_.chunk > 0,
                                should_stop);
}

}  // namespace muster
