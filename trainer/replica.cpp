// SPDX-License-Identifier: Apache-2.0
#include "replica.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "hash.hpp"

namespace muster {
namespace {

/// Scalars before the gradients.
enum Extra { loss_slot, not_finite_slot, stop_slot, failed_slot, slots };
static_assert(slots == Replica::extra_slots);

}  // namespace

template <typename Real>
Replica::Replica(const Settings& settings, const Workload& workload, compute::Compute<Real>& compute,
                 Communicator world)
    : settings_(settings),
      workload_(workload),
      world_(std::move(world)),
      compute_(compute),
      model_(workload.build(compute, samples_at_once(settings, world_.rank(), world_.size()), extra_slots)),
      optimizer_(model_->tensors().table(), settings.adamw, compute, part_of(world_.rank())) {}

template Replica::Replica(const Settings&, const Workload&, compute::Compute<float>&, Communicator);
template Replica::Replica(const Settings&, const Workload&, compute::Compute<bfloat16>&, Communicator);

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
void Replica::compute_chunk(std::uint64_t first_sample, std::uint64_t count, const StepNotes& notes,
                            StepResult& result) {
  // Scaled by the global count, the chunks' sums add up to the mean over the global batch, whatever their
  // sizes.
  const double scale = 1.0 / static_cast<double>(predictions_per_step());
  try {
    model_->take(first_sample, count);
  } catch (const Error& error) {
    result.error = error;  // told to all with this step, which nobody keeps
  }
  bool finite = true;
  const double sum = model_->loss_and_gradients(static_cast<float>(scale), [&](std::size_t tensor) {
    const auto gradient = reducer_->gradient(tensor + 1);
    finite = finite && std::isfinite(compute_.sum_of_squares(gradient.data(), gradient.size()));
    reducer_->ready(tensor + 1);
  });
  finite = finite && std::isfinite(sum);
  if (!finite) {
    if (result.not_finite.count() == 0) result.not_finite.begin = first_sample;
    result.not_finite.end = first_sample + count;
  }
  const std::span<float> extra = reducer_->gradient(0);
  extra[loss_slot] = static_cast<float>(sum * scale);
  extra[not_finite_slot] = finite ? 0.0f : 1.0f;
  extra[stop_slot] = notes.stop ? 1.0f : 0.0f;
  extra[failed_slot] = notes.failed || result.error ? 1.0f : 0.0f;
  reducer_->ready(0);
}

StepResult Replica::step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                         const StepNotes& notes) {
  if (!reducer_) connect();
  StepResult result;
  const Share mine = reducer_->chunks();
  for (std::uint64_t chunk = mine.begin; chunk < mine.end; ++chunk) {
    const Share samples = samples_of(chunk);
    compute_chunk(static_cast<std::uint64_t>(first_sample) + samples.begin, samples.count(), notes, result);
  }
  reducer_->finish();
  const ReducerStatistics reduced = reducer_->last_step();
  result.exposed = reduced.exposed;
  result.communication = reduced.communication;
  result.gradient_bytes = reduced.bytes;
  const std::span<const float> extra = reducer_->gradient(0);
  result.loss = double{extra[loss_slot]};
  result.any_stop = extra[stop_slot] > 0;
  result.any_failed = extra[failed_slot] > 0;
  result.gradient_norm = optimizer_.norm(model_->tensors().gradients());
  result.finite =
      extra[not_finite_slot] == 0 && std::isfinite(result.gradient_norm) && std::isfinite(result.loss);
  if (result.finite) {
    optimizer_.update(model_->tensors().parameters(), model_->tensors().gradients(), result.gradient_norm,
                      learning_rate, step, model_->tensors().rounded());
    if (sharded()) gather_parameters(result);
  }
  return result;
}

void Replica::gather_parameters(StepResult& result) {
  const auto from = std::chrono::steady_clock::now();
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < world_.size(); ++rank) counts.push_back(part_of(rank).count());
  const std::span<float> all = model_->tensors().parameters();
  const Share& own = optimizer_.part();
  world_.all_gather_v(std::span<const float>(all.subspan(own.begin, own.count())), all, counts);
  model_->tensors().round_parameters(compute_);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  result.exposed += seconds;
  result.communication += seconds;
  result.gathered_bytes = all.size_bytes();
}

void Replica::add_up(Validation& validation) {
  Average all[] = {validation.loss, validation.accuracy};
  average_over_ranks(world_, all);
  validation = {all[0], all[1]};
}

std::uint64_t Replica::parameter_hash() {
  const auto parameters = model_->tensors().parameters();
  return hash_bytes(parameters.data(), parameters.size_bytes());
}

}  // namespace muster
