// SPDX-License-Identifier: Apache-2.0
#include "replica.hpp"

#include <algorithm>
#include <cmath>

#include "hash.hpp"

namespace muster {
namespace {

/// Scalars before the gradients.
enum Extra { loss_slot, not_finite_slot, stop_slot, failed_slot, extra_slots };

std::uint64_t chunks_of(const Replica::Settings& settings, int ranks) {
  const auto batch = static_cast<std::uint64_t>(settings.batch);
  const auto chunk = static_cast<std::uint64_t>(settings.chunk);
  return chunk > 0 ? (batch + chunk - 1) / chunk : static_cast<std::uint64_t>(ranks);
}

}  // namespace

Replica::Replica(const Settings& settings, const data::Corpus& corpus, compute::Compute<float>& compute,
                 Communicator world)
    : settings_(settings),
      corpus_(corpus),
      world_(std::move(world)),
      compute_(compute),
      chunks_(chunks_of(settings, world_.size())),
      most_count_(settings.chunk > 0 ? static_cast<std::uint64_t>(settings.chunk)
                                     : samples_of(static_cast<std::uint64_t>(world_.rank())).count()),
      windows_(corpus.training().size(), settings.model.context, settings.seed),
      model_(settings.model, static_cast<int>(most_count_), compute, extra_slots),
      optimizer_(model_.table(), settings.adamw, compute),
      tokens_(most_count_ * static_cast<std::size_t>(settings.model.context)),
      targets_(tokens_.size()) {}

void Replica::broadcast() {
  const TrainingTensors all = tensors();
  broadcast_state(world_, State().add(all.parameters).add(all.moment1).add(all.moment2));
}

void Replica::connect() {
  ReducerOptions options;
  options.reduction = Reduction::sum;
  if (settings_.chunk > 0) options.chunks = chunks_;
  reducer_.emplace(world_, model_.extra_and_gradients(), options);
}

Share Replica::samples_of(std::uint64_t chunk) const {
  const auto batch = static_cast<std::uint64_t>(settings_.batch);
  const auto size = static_cast<std::uint64_t>(settings_.chunk);
  if (size == 0) return share_of(batch, static_cast<int>(chunk), world_.size());
  return {chunk * size, std::min((chunk + 1) * size, batch)};
}

void Replica::take_samples(std::uint64_t first, std::uint64_t count) {
  const auto context = static_cast<std::size_t>(settings_.model.context);
  const std::uint8_t* text = corpus_.training().data();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint8_t* window = text + windows_.start(first + i);
    std::copy_n(window, context, tokens_.data() + i * context);
    std::copy_n(window + 1, context, targets_.data() + i * context);
  }
}

// Leaves the chunk's gradients and scalars with the reducer, which works on them already.
void Replica::compute_chunk(std::uint64_t first_sample, std::uint64_t count, const StepNotes& notes,
                            StepResult& result) {
  take_samples(first_sample, count);
  // Scaled by the global count, the chunks' sums add up to the mean over the global batch, whatever their
  // sizes.
  const double scale = 1.0 / static_cast<double>(tokens_per_step());
  bool finite = true;
  const double sum = model_.loss_and_gradients(
      tokens_.data(), targets_.data(), static_cast<int>(count), settings_.model.context,
      static_cast<float>(scale), [&](std::size_t tensor) {
        const auto gradient = reducer_->gradient(tensor + 1);
        finite = finite && std::isfinite(compute_.sum_of_squares(gradient.data(), gradient.size()));
        reducer_->ready(tensor + 1);
      });
  finite = finite && std::isfinite(sum);
  result.finite_here = result.finite_here && finite;
  const std::span<float> extra = reducer_->gradient(0);
  extra[loss_slot] = static_cast<float>(sum * scale);
  extra[not_finite_slot] = finite ? 0.0f : 1.0f;
  extra[stop_slot] = notes.stop ? 1.0f : 0.0f;
  extra[failed_slot] = notes.failed ? 1.0f : 0.0f;
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
  result.exposed = reducer_->last_step().exposed;
  const std::span<const float> extra = reducer_->gradient(0);
  result.loss = double{extra[loss_slot]};
  result.any_stop = extra[stop_slot] > 0;
  result.any_failed = extra[failed_slot] > 0;
  result.gradient_norm = optimizer_.norm(model_.gradients());
  result.finite =
      extra[not_finite_slot] == 0 && std::isfinite(result.gradient_norm) && std::isfinite(result.loss);
  if (result.finite) {
    optimizer_.update(model_.parameters(), model_.gradients(), result.gradient_norm, learning_rate, step);
  }
  return result;
}

Average Replica::validate() {
  Average loss = validation_share(model_, corpus_.held_out_with_lead(), world_.rank(), world_.size());
  average_over_ranks(world_, {&loss, 1});
  return loss;
}

std::uint64_t Replica::parameter_hash() {
  const auto parameters = model_.parameters();
  return hash_bytes(parameters.data(), parameters.size_bytes());
}

}  // namespace muster
