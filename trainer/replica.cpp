// SPDX-License-Identifier: Apache-2.0
#include "replica.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace muster {
template <typename Real>
Replica::Replica(const Settings& settings, const Workload& workload, compute::Compute<Real>& compute,
                 Communicator world, std::optional<Communicator> host)
    : settings_(settings),
      workload_(workload),
      world_(std::move(world)),
      host_(host ? std::move(*host) : world_),
      compute_(compute),
      model_(workload.build(compute, samples_at_once(settings, world_.rank(), world_.size()), extra_slots)),
      optimizer_(model_->tensors().table(), settings.adamw, compute, part_of(world_.rank())) {}

template Replica::Replica(const Settings&, const Workload&, compute::Compute<float>&, Communicator,
                          std::optional<Communicator>);
template Replica::Replica(const Settings&, const Workload&, compute::Compute<bfloat16>&, Communicator,
                          std::optional<Communicator>);

void Replica::initialize() {
  model_->tensors().initialize(settings_.seed);
  model_->tensors().round_parameters(compute_);
}

std::uint64_t Replica::samples_at_once(const Settings& settings, int rank, int ranks) {
  if (settings.chunk > 0) return static_cast<std::uint64_t>(settings.chunk);
  return share_of(static_cast<std::uint64_t>(settings.batch), rank, ranks).count();
}

ReducerOptions Replica::reducer_options(const Settings& settings) {
  ReducerOptions options;
  options.reduction = Reduction::sum;
  const auto batch = static_cast<std::uint64_t>(settings.batch);
  const auto chunk = static_cast<std::uint64_t>(settings.chunk);
  if (chunk > 0) options.chunks = (batch + chunk - 1) / chunk;
  return options;
}

std::size_t Replica::bytes() noexcept {
  const TrainingTensors own = tensors();
  return model_->bytes() + own.moment1.size_bytes() + own.moment2.size_bytes();
}

void Replica::connect() {
  reducer_.emplace(world_, model_->tensors().extra_and_gradients(), reducer_options(settings_));
}

Share Replica::samples_of(std::uint64_t chunk) const {
  const auto batch = static_cast<std::uint64_t>(settings_.batch);
  const auto size = static_cast<std::uint64_t>(settings_.chunk);
  if (size == 0) return share_of(batch, static_cast<int>(chunk), world_.size());
  return {chunk * size, std::min((chunk + 1) * size, batch)};
}

// Leaves the chunk's gradients and scalars with the reducer, which works on them already.
void Replica::compute_chunk(std::size_t number, const Share& samples, const StepNotes& notes,
                            StepResult& result) {
  // Scaled by the global count, the chunks' sums add up to the mean over the global batch, whatever their
  // sizes.
  const double scale = 1.0 / static_cast<double>(predictions_per_step());
  try {
    model_->take(samples.begin, samples.count());
  } catch (const Error& error) {
    result.error = error;  // told to all with this step, which nobody keeps
  }
  const Stream stream = compute_.stream();
  model_->gradients(static_cast<float>(scale), [&](std::size_t tensor) {
    const auto gradient = reducer_->gradient(tensor + 1);
    compute_.look_at(gradient.data(), gradient.size());
    reducer_->ready(tensor + 1, stream);
  });
  compute_.end_chunk(number, scale, notes.stop, notes.failed || result.error, reducer_->gradient(0).data());
  reducer_->ready(0, stream);
}

StepResult Replica::step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                         const StepNotes& notes) {
  if (!reducer_) connect();
  StepResult result;
  const Share mine = reducer_->chunks();
  const auto samples = [&](std::uint64_t chunk) {
    const Share share = samples_of(chunk);
    const auto first = static_cast<std::uint64_t>(first_sample);
    return Share{first + share.begin, first + share.end};
  };
  compute_.begin_step(mine.count());
  for (std::uint64_t chunk = mine.begin; chunk < mine.end; ++chunk)
    compute_chunk(chunk - mine.begin, samples(chunk), notes, result);
  reducer_->finish(compute_.stream());
  const auto gradients = model_->tensors().gradients();
  const auto norm =
      compute_.decide(reducer_->gradient(0).data(), gradients.data(), gradients.size(), settings_.adamw.clip);
  if (norm) {
    optimizer_.update(model_->tensors().parameters(), gradients, *norm, learning_rate, step,
                      model_->tensors().rounded());
    if (sharded()) gather_parameters(result);
  }
  // Here the host waits for a device, and nowhere before.
  world_.synchronize(compute_.stream());
  const compute::StepOutcome outcome = compute_.outcome();
  take_outcome(outcome, result);
  for (std::uint64_t chunk = mine.begin; chunk < mine.end; ++chunk) {
    if (outcome.chunk_is_finite[chunk - mine.begin]) continue;
    if (result.not_finite.count() == 0) result.not_finite.begin = samples(chunk).begin;
    result.not_finite.end = samples(chunk).end;
  }
  return result;
}

void Replica::take_outcome(const compute::StepOutcome& outcome, StepResult& result) {
  result.loss = outcome.loss;
  result.gradient_norm = outcome.gradient_norm;
  result.finite = outcome.finite;
  result.any_stop = outcome.any_stop;
  result.any_failed = outcome.any_failed;
  const ReducerStatistics reduced = reducer_->last_step();
  result.exposed += reduced.exposed;
  result.communication += reduced.communication;
  result.gradient_bytes = reduced.bytes;
}

void Replica::gather_parameters(StepResult& result) {
  const auto from = std::chrono::steady_clock::now();
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < world_.size(); ++rank) counts.push_back(part_of(rank).count());
  const std::span<float> all = model_->tensors().parameters();
  const Share& own = optimizer_.part();
  world_.all_gather_v(std::span<const float>(all.subspan(own.begin, own.count())), all, counts,
                      compute_.stream());
  model_->tensors().round_parameters(compute_);
  result.gathered_bytes = all.size_bytes();
  if (compute_.stream() != nullptr) return;  // it has only begun
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  result.exposed += seconds;
  result.communication += seconds;
}

void Replica::add_up(Validation& validation) {
  Average all[] = {validation.loss, validation.accuracy};
  average_over_ranks(host_, all);
  validation = {all[0], all[1]};
}

}  // namespace muster
