// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "compute/host_copy.hpp"
#include "files/hash.hpp"
#include "strategies/pipeline/schedule_picture.hpp"
#include "training/host_transfer.hpp"

namespace muster {

template <typename Real>
Pipeline::Pipeline(const pipeline::Settings& settings, const Replica::Settings& training,
                   const Workload& workload, compute::Compute<Real>& compute, const Communicator& world,
                   const Communicator& host)
    : plan_(pipeline::make_plan(settings, training, workload, host.rank(), host.size())),
      training_(training),
      table_(workload.table()),
      predictions_per_sample_(workload.predictions_per_sample()),
      host_(host),
      pipeline_(host.split(plan_.replica, plan_.rank)),
      tensors_(world.split(plan_.replica, plan_.rank)),
      compute_(compute),
      links_(world, pipeline_, plan_, compute),
      squares_(table_.tensors.size() + 1, compute.memory()),
      scalars_(compute::reduced_scalar_count, compute.memory()),
      kept_losses_(plan_.micro_batches.size(), compute.memory()) {
  compute.set_label_smoothing(training.label_smoothing);
  for (const models::LayerRange& layers : plan_.stages) tables_.push_back(workload.stage_table(layers));
  std::map<int, StageModel*> models;
  for (const int number : plan_.local_stages()) {
    stages_.push_back(std::make_unique<pipeline::Stage>(number, plan_, training_, workload, compute,
                                                        world.split(plan_.rank, plan_.replica), links_));
    models[number] = &stages_.back()->model();
  }
  runner_.emplace(plan_, std::move(models), links_, compute.stream() == nullptr);
  synchronize_batch_norm();
}

template Pipeline::Pipeline(const pipeline::Settings&, const Replica::Settings&, const Workload&,
                            compute::Compute<float>&, const Communicator&, const Communicator&);
template Pipeline::Pipeline(const pipeline::Settings&, const Replica::Settings&, const Workload&,
                            compute::Compute<bfloat16>&, const Communicator&, const Communicator&);

// The replicas of a place run equally many micro-batches in the same order, so their all-reduces match, and
// each of these waits for no later operation of a schedule. Communicators as Replica's.
void Pipeline::synchronize_batch_norm() {
  if (!training_.sync_batch_norm || plan_.replicas == 1) return;
  const Stream stream = compute_.stream();
  const Communicator on_host = host_.split(plan_.rank, plan_.replica);
  for (const auto& of : stages_) {
    of->model().synchronize_batch_norm(
        [replicas = stream ? of->group() : on_host, stream](std::span<double> values) mutable {
          replicas.all_reduce(values, Reduction::sum, stream);
        });
  }
}

pipeline::Stage& Pipeline::stage(int number) {
  return *stages_[static_cast<std::size_t>(number / plan_.shape.ranks)];
}

std::size_t Pipeline::bytes() noexcept {
  std::size_t bytes = 0;
  for (const auto& stage : stages_) bytes += stage->bytes();
  return bytes;
}

Share Pipeline::samples_of(int micro_batch) const {
  const Share& samples = plan_.micro_batches[static_cast<std::size_t>(micro_batch)];
  return {first_sample_ + samples.begin, first_sample_ + samples.end};
}

// Says which samples this step and the next one load.
void Pipeline::prefetch() {
  std::vector<Share> samples;
  for (const std::uint64_t step : {std::uint64_t{0}, static_cast<std::uint64_t>(training_.batch)}) {
    for (std::size_t i = 0; i < plan_.micro_batches.size(); ++i) {
      const Share& of = samples_of(static_cast<int>(i));
      samples.push_back({of.begin + step, of.end + step});
    }
  }
  for (const auto& of : stages_) of->model().prefetch(samples);
}

std::vector<std::string> Pipeline::left_out() const {
  std::vector<std::string> all;
  for (const auto& of : stages_) {
    for (const std::string& line : of->model().left_out())
      if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(line);
  }
  return all;
}

// The error is sent to all ranks with this step, and its result is dropped then.
void Pipeline::load(int number, int micro_batch, int slot) {
  const auto from = std::chrono::steady_clock::now();
  const Share samples = samples_of(micro_batch);
  try {
    stage(number).model().load_samples(slot, samples.begin, samples.count());
  } catch (const Error& error) {
    if (!result_->error) result_->error = error;
  }
  result_->loading += std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

void Pipeline::backward(const pipeline::Operation& operation, int slot, const StepFlags& flags) {
  using pipeline::OperationKind;
  const OperationKind kind = operation.kind;
  const int number = operation.stage, micro_batch = operation.micro_batch;
  const double scale = 1.0 / static_cast<double>(predictions_per_step());
  const bool is_last = number + 1 == plan_.shape.stages();
  pipeline::Stage& of = stage(number);
  const std::size_t chunks = plan_.reduces_micro_batches ? plan_.micro_batches.size() : 1;
  const std::size_t local = static_cast<std::size_t>(number / plan_.shape.ranks);
  const auto end_chunk = [&](std::span<float> scalars) {
    compute_.end_chunk(local * chunks + of.chunk_of(micro_batch), is_last ? scale : 0, flags.stop,
                       flags.failed || result_->error, scalars.data());
  };
  if (is_last) compute_.accumulate_loss(micro_batch > 0 && !plan_.reduces_micro_batches);
  if (kind == OperationKind::backward) of.backward(micro_batch, slot, static_cast<float>(scale), end_chunk);
  if (kind == OperationKind::backward_input) of.backward_input(micro_batch, slot, static_cast<float>(scale));
  if (is_last && plan_.reduces_micro_batches) keep_loss(operation);
  if (kind == OperationKind::backward_weight) of.backward_weight(micro_batch, slot, end_chunk);
  if (is_last) compute_.accumulate_loss(false);
}

void Pipeline::keep_loss(const pipeline::Operation& operation) {
  double* const kept = kept_losses_.data() + operation.micro_batch;
  if (operation.kind == pipeline::OperationKind::backward_input) compute_.save_loss(kept);
  if (operation.kind == pipeline::OperationKind::backward_weight) compute_.restore_loss(kept);
}

void Pipeline::begin_step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                          const StepFlags& flags) {
  result_.emplace();
  first_sample_ = static_cast<std::uint64_t>(first_sample);
  const std::size_t micro_batches = plan_.micro_batches.size();
  const std::size_t chunks = plan_.reduces_micro_batches ? micro_batches : 1;
  ++steps_;
  prefetch();
  compute_.begin_step(chunks * stages_.size(), micro_batches / chunks);
  runner_->run({[this](int number, int micro_batch, int slot) { load(number, micro_batch, slot); },
                [&](const pipeline::Operation& operation, int slot) { backward(operation, slot, flags); }},
               static_cast<float>(1.0 / static_cast<double>(predictions_per_step())));
  for (const auto& of : stages_) of->finish_reduction();
  links_.wait_all_sent();
  if (const auto norm = decide()) update(*norm, learning_rate, step);
  compute_.end_step();
  const double waited = links_.take_waited();
  result_->exposed += waited;
  result_->communication += waited;
  result_->gradient_bytes += links_.take_sent();
}

// The sums of squares of all tensors, each from the rank that has it, and the scalars of all stages, of which
// the last one alone has a loss. Zeros are added, so the order of ranks does not matter.
std::optional<double> Pipeline::decide() {
  const std::size_t tensors = table_.tensors.size();
  const Stream stream = compute_.stream();
  compute_.clear(squares_.data(), squares_.size() * sizeof(double));
  compute_.clear(scalars_.data(), scalars_.size() * sizeof(float));
  for (const auto& of : stages_) {
    of->write_squares(squares_.span().first(tensors));
    compute_.accumulate(of->scalars().data(), scalars_.data(), scalars_.size(), false);
  }
  for (const pipeline::TimedOperation& timed : runner_->timeline())
    squares_.data()[tensors] += timed.end - timed.begin;
  tensors_.grouped([&] {
    tensors_.all_reduce(squares_.span(), Reduction::sum, stream);
    tensors_.all_reduce(scalars_.span(), Reduction::sum, stream);
  });
  if (!runner_->timeline().empty()) measure_idle_share(squares_.data()[tensors]);
  return compute_.decide_from_squares(scalars_.data(), squares_.span().first(tensors),
                                      training_.optimizer.clip);
}

// The first rank of a pipeline begins first and ends last.
void Pipeline::measure_idle_share(double busy_seconds) {
  if (host_.rank() != 0) return;
  result_->idle_share = idle_share_ = 1 - busy_seconds / (plan_.shape.ranks * runner_->timeline().back().end);
}

void Pipeline::update(double norm, double learning_rate, std::int64_t step) {
  for (const auto& of : stages_) result_->gathered_bytes += of->update(norm, learning_rate, step);
  for (const auto& of : stages_) of->exchange_table();
}

StepResult Pipeline::end_step() {
  // The only place where the host waits for a device.
  if (compute_.stream() != nullptr) tensors_.synchronize(compute_.outcome_stream());
  const compute::StepOutcome outcome = compute_.outcome();
  result_->loss = outcome.loss;
  result_->gradient_norm = outcome.gradient_norm;
  result_->finite = outcome.finite;
  result_->any_stop = outcome.any_stop;
  result_->any_failed = outcome.any_failed;
  find_non_finite(outcome.chunk_is_finite);
  for (const auto& of : stages_) {
    const std::optional<ReducerStatistics> reduced = of->statistics(steps_);
    if (!reduced) continue;
    result_->exposed += reduced->exposed;
    result_->communication += reduced->communication;
    result_->gradient_bytes += reduced->bytes;
  }
  StepResult result = *std::move(result_);
  result_.reset();
  return result;
}

void Pipeline::find_non_finite(const std::vector<bool>& chunk_is_finite) {
  const std::size_t chunks = chunk_is_finite.size() / stages_.size();
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    bool is_finite = true;
    for (std::size_t local = 0; local < stages_.size(); ++local)
      is_finite = is_finite && chunk_is_finite[local * chunks + chunk];
    if (is_finite) continue;
    const int last = static_cast<int>(chunks > 1 ? chunk : plan_.micro_batches.size() - 1);
    Share& samples = result_->non_finite_samples;
    if (samples.count() == 0) samples.begin = samples_of(static_cast<int>(chunk)).begin;
    samples.end = samples_of(last).end;
  }
}

Validation Pipeline::validate_share(const Model::ShouldStop& should_stop) {
  Validation found;
  std::optional<Error> error;
  for (const auto& of : stages_)
    of->model().begin_validation(plan_.replica, plan_.replicas, training_.chunk > 0);
  const auto load = [&](int number, int slot) {
    StageModel& model = stage(number).model();
    if (number == 0 && should_stop()) return false;
    if (!model.next_held_out(slot)) return false;
    try {
      model.load_held_out(slot);
    } catch (const Error& reason) {
      error = reason;
    }
    return number > 0 || !error;
  };
  const auto end = [&](int slot) {
    if (compute_.stream() != nullptr) tensors_.synchronize(compute_.stream());
    const Validation batch = stages_.back()->model().held_out_result(slot);
    found.loss.sum += batch.loss.sum;
    found.loss.weight += batch.loss.weight;
    found.accuracy.sum += batch.accuracy.sum;
    found.accuracy.weight += batch.accuracy.weight;
  };
  runner_->run_forward(load, end);
  if (error) throw *error;
  return found;
}

void Pipeline::all_reduce_validation(Validation& validation) { average_over_ranks(host_, validation); }

// All ranks of a pipeline have equally many operations.
std::string Pipeline::draw_last_step() {
  constexpr std::size_t fields = 5;
  std::vector<double> own;
  for (const auto& [operation, begin, end] : runner_->timeline()) {
    const double values[fields] = {static_cast<double>(operation.kind), static_cast<double>(operation.stage),
                                   static_cast<double>(operation.micro_batch), begin, end};
    own.insert(own.end(), std::begin(values), std::end(values));
  }
  if (own.empty()) return "";
  std::vector<double> all(own.size() * static_cast<std::size_t>(plan_.shape.ranks));
  pipeline_.all_gather(own, all);
  if (host_.rank() != 0) return "";
  std::vector<std::vector<pipeline::TimedOperation>> ranks(static_cast<std::size_t>(plan_.shape.ranks));
  for (std::size_t i = 0; i < all.size(); i += fields) {
    const double* const of = &all[i];
    ranks[i / own.size()].push_back({{static_cast<pipeline::OperationKind>(static_cast<char>(of[0])),
                                      static_cast<int>(of[1]), static_cast<int>(of[2])},
                                     of[3],
                                     of[4]});
  }
  return pipeline::draw_schedule(
      ranks, fmt::format("Schedule of the last step: {}", to_string(plan_.shape.kind)),
      fmt::format("{}; {:.1f}% idle, {:.1f}% by the formula; each rank from its own start",
                  plan_.shape.kind == pipeline::ScheduleKind::zero_bubble_h1
                      ? "F forward, I input gradients, W weight gradients"
                      : "F forward, B backward",
                  100 * idle_share_, 100 * idle_share_formula(plan_.shape)));
}

std::uint64_t Pipeline::parameter_hash() {
  std::vector<std::uint64_t> hashes;
  for (const auto& of : stages_) {
    const compute::HostCopy parameters(of->parameters(), compute_.memory());
    hashes.push_back(hash_bytes(parameters.values().data(), parameters.values().size_bytes()));
  }
  std::vector<std::uint64_t> all(hashes.size() * static_cast<std::size_t>(pipeline_.size()));
  pipeline_.all_gather(hashes, all);
  return hash_bytes(all.data(), all.size() * sizeof(std::uint64_t));
}

void Pipeline::initialize(const weights::WeightSource& source) {
  initial_.emplace(table_.arena_size);
  source.read(initial_->span());
}

// Every rank draws its initial parameters itself, which are the same on every machine.
void Pipeline::broadcast() {
  std::int32_t has_weights = initial_ ? 1 : 0;
  host_.broadcast(has_weights, 0);
  if (has_weights != 0) {
    compute::Arena<float> zeros(initial_ ? table_.arena_size : 0);  // the moments
    scatter_state({initial_ ? initial_->span() : std::span<float>{}, zeros.span(), zeros.span()});
    return initial_.reset();
  }
  for (const auto& of : stages_) of->initialize(training_.seed);
  after_parameters();
}

void Pipeline::after_parameters() {
  for (const auto& of : stages_) of->round_parameters();
  for (const auto& of : stages_) of->exchange_table();
}

// A stage's trained tensors are one slice of the whole model's, and its statistics another.
void Pipeline::append_parts(std::vector<StatePart>& parts, std::span<float> whole, std::size_t arena,
                            int number, bool of_all_replicas) {
  const StageTable& of = tables_[static_cast<std::size_t>(number)];
  const auto append = [&](std::size_t first_tensor, const Share& share, int replica, std::size_t own_begin) {
    StatePart part{{}, {}, plan_.world_rank(number, replica)};
    const std::size_t begin = table_.tensors[first_tensor].offset + share.begin;
    if (host_.rank() == 0) part.whole = whole.subspan(begin, share.count());
    if (host_.rank() == part.owner) part.own = stage(number).arena(arena).subspan(own_begin, share.count());
    parts.push_back(part);
  };
  const std::size_t size = of.table.trained_size;
  if (arena == 0) {
    append(of.first_tensor, {0, size}, 0, 0);
    if (of.statistics_size() > 0) append(of.first_statistic, {0, of.statistics_size()}, 0, size);
    return;
  }
  const bool all = of_all_replicas || pipeline::shards_optimizer(training_, plan_.replicas);
  for (int replica = 0; replica < (all ? plan_.replicas : 1); ++replica)
    append(of.first_tensor, pipeline::moment_part(training_, size, replica, plan_.replicas), replica, 0);
}

std::vector<Pipeline::StatePart> Pipeline::list_parts(const TrainingTensors& whole, bool of_all_replicas) {
  const std::array arenas{whole.parameters, whole.moment1, whole.moment2};
  std::vector<StatePart> parts;
  for (std::size_t arena = 0; arena <= checkpoint_parts().moments; ++arena) {
    for (int number = 0; number < plan_.shape.stages(); ++number)
      append_parts(parts, arenas[arena], arena, number, of_all_replicas);
  }
  return parts;
}

void Pipeline::scatter_state(const TrainingTensors& whole) {
  for (const StatePart& part : list_parts(whole, true)) {
    if (host_.rank() == 0 && part.owner == 0)
      compute_.memory().copy_in(part.own.data(), part.whole.data(), part.own.size_bytes());
    else if (host_.rank() == 0)
      host_.send(part.whole, part.owner);
    else if (host_.rank() == part.owner)
      receive_into(compute_.memory(), part.own, host_, 0);
  }
  for (const auto& of : stages_) of->group().broadcast(of->parameters(), 0, compute_.stream());
  after_parameters();
}

void Pipeline::gather_state(const TrainingTensors& whole) {
  for (const StatePart& part : list_parts(whole, false)) {
    if (host_.rank() == 0 && part.owner == 0)
      compute_.memory().copy_out(part.whole.data(), part.own.data(), part.own.size_bytes());
    else if (host_.rank() == 0)
      host_.recv(part.whole, part.owner);
    else if (host_.rank() == part.owner)
      send_from(compute_.memory(), part.own, host_, 0);
  }
}

}  // namespace muster
