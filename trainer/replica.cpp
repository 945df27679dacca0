// SPDX-License-Identifier: Apache-2.0
#include "replica.hpp"

#include <algorithm>
#include <cmath>

#include "hash.hpp"

namespace muster {
namespace {

/// Scalars behind the gradients.
enum Extra { loss_slot, not_finite_slot, stop_slot, failed_slot, extra_slots };

}  // namespace

Replica::Replica(const Settings& settings, const data::Corpus& corpus, compute::Compute<float>& compute,
                 Communicator world)
    : settings_(settings),
      corpus_(corpus),
      world_(std::move(world)),
      share_(data::share_of(static_cast<std::uint64_t>(settings.batch), world_.rank(), world_.size())),
      sampler_(corpus.training().size(), settings.model.context, settings.seed),
      model_(settings.model, static_cast<int>(share_.count()), compute, extra_slots),
      optimizer_(model_.table(), settings.adamw, compute),
      tokens_(share_.count() * static_cast<std::size_t>(settings.model.context)),
      targets_(tokens_.size()) {}

void Replica::broadcast() {
  const TrainingTensors all = tensors();
  for (const auto& arena : {all.parameters, all.moment1, all.moment2}) world_.broadcast(arena, 0);
}

void Replica::take_samples(std::int64_t first_sample) {
  const auto context = static_cast<std::size_t>(settings_.model.context);
  const std::uint8_t* text = corpus_.training().data();
  const std::uint64_t first = static_cast<std::uint64_t>(first_sample) + share_.begin;
  for (std::uint64_t i = 0; i < share_.count(); ++i) {
    const std::uint8_t* window = text + sampler_.start(first + i);
    std::copy_n(window, context, tokens_.data() + i * context);
    std::copy_n(window + 1, context, targets_.data() + i * context);
  }
}

StepResult Replica::step(std::int64_t step, std::int64_t first_sample, double learning_rate,
                         const StepNotes& notes) {
  take_samples(first_sample);
  // Scaled by the global count, the ranks' sums add up to the mean over the global batch, whatever their
  // shares.
  const double scale = 1.0 / static_cast<double>(tokens_per_step());
  const double sum =
      model_.loss_and_gradients(tokens_.data(), targets_.data(), static_cast<int>(share_.count()),
                                settings_.model.context, static_cast<float>(scale));
  StepResult result;
  result.finite_here = std::isfinite(sum) && std::isfinite(optimizer_.norm(model_.gradients()));
  const std::span<float> extra = model_.gradients_and_extra().last(extra_slots);
  extra[loss_slot] = static_cast<float>(sum * scale);
  extra[not_finite_slot] = result.finite_here ? 0.0f : 1.0f;
  extra[stop_slot] = notes.stop ? 1.0f : 0.0f;
  extra[failed_slot] = notes.failed ? 1.0f : 0.0f;
  if (world_.size() > 1) world_.all_reduce(model_.gradients_and_extra());
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

LossSum Replica::validate() {
  LossSum sum = validation_share(model_, corpus_.held_out_with_lead(), world_.rank(), world_.size());
  double both[] = {sum.nats, static_cast<double>(sum.bytes)};
  world_.all_reduce(std::span<double>(both));
  return {both[0], static_cast<std::int64_t>(both[1])};
}

std::uint64_t Replica::parameter_hash() {
  const auto parameters = model_.parameters();
  return hash_bytes(parameters.data(), parameters.size_bytes());
}

}  // namespace muster
