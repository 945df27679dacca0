// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/stage.hpp"

#include <algorithm>
#include <utility>

namespace muster::pipeline {

template <typename Real>
Stage::Stage(int number, const Plan& plan, const Replica::Settings& training, const Workload& workload,
             compute::Compute<Real>& compute, Communicator group, StageLinks& links)
    : number_(number),
      plan_(plan),
      training_(training),
      compute_(compute),
      group_(std::move(group)),
      links_(links),
      whole_(workload.table()),
      table_(workload.stage_table(plan.stages[static_cast<std::size_t>(number)])),
      model_(workload.build_stage(compute, plan.stage_settings(number))),
      optimizer_(table_.table, training.optimizer, compute, part(plan.replica)),
      weight_slots_(plan.stage_settings(number).weight_slots),
      shares_table_(number == 0 && workload.stage_table(plan.stages.back()).has_copied_table) {
  if (!plan.reduces_micro_batches && plan.shape.micro_batches > 1)
    sums_ = compute::Arena<float>(table_.table.arena_size, compute.memory());
  const std::size_t copied = copy(model_->tensors().parameters()).size();
  copies_ = compute::Arena<float>(plan.table_copies(number, table_) * copied, compute.memory());
}

template Stage::Stage(int, const Plan&, const Replica::Settings&, const Workload&, compute::Compute<float>&,
                      Communicator, StageLinks&);
template Stage::Stage(int, const Plan&, const Replica::Settings&, const Workload&,
                      compute::Compute<bfloat16>&, Communicator, StageLinks&);

std::size_t Stage::bytes() noexcept {
  return model_->bytes() + optimizer_.moment1().size_bytes() + optimizer_.moment2().size_bytes() +
         (sums_.size() + copies_.size()) * sizeof(float);
}

Share Stage::part(int replica) const {
  return moment_part(training_, table_.table.trained_size, replica, plan_.replicas);
}

std::span<float> Stage::gradient_of(std::size_t tensor) {
  const auto& tensors = table_.table.tensors;
  const std::size_t begin = tensors[tensor].offset;
  const std::size_t end = tensor + 1 < tensors.size() ? tensors[tensor + 1].offset : table_.table.arena_size;
  return model_->tensors().gradients().subspan(begin, end - begin);
}

// The scalars and all tensors but a copied table.
void Stage::create_reducer() {
  std::vector<std::span<float>> parts = model_->tensors().extra_and_gradients();
  if (table_.has_copied_table) parts.pop_back();
  reducer_.emplace(group_, parts, Replica::reducer_options(training_));
  if (group_.size() == 1 && reducer_->chunks().count() == 1 && compute_.memory().is_host())
    squares_.resize(table_.table.trained_ends().size());
}

void Stage::begin_gradients(int micro_batch) {
  if (!reducer_) create_reducer();
  if (shares_table_) prepare_table(micro_batch);
}

void Stage::take_gradient(std::size_t tensor, int micro_batch) {
  add_gradient(tensor, micro_batch);
  if (!ends_chunk(micro_batch)) return;
  // The first stage checks it in its sum, in which a non-finite value stays one.
  if (is_copy(tensor)) return send_copy(micro_batch);
  const auto gradient = gradient_of(tensor);
  compute_.check_finite(gradient.data(), gradient.size(), whole_.tensors[table_.first_tensor + tensor].offset,
                        tensor < squares_.size() ? &squares_[tensor] : nullptr);
  reducer_->ready(tensor + 1, compute_.stream());
}

void Stage::end_gradients(int micro_batch, const std::function<void(std::span<float>)>& scalars) {
  if (!ends_chunk(micro_batch)) return;
  scalars(reducer_->gradient(0));
  reducer_->ready(0, compute_.stream());
}

void Stage::backward(int micro_batch, int slot, float gradient_scale,
                     const std::function<void(std::span<float>)>& scalars) {
  begin_gradients(micro_batch);
  model_->backward(slot, gradient_scale, [&](std::size_t tensor) { take_gradient(tensor, micro_batch); });
  end_gradients(micro_batch, scalars);
}

void Stage::backward_input(int micro_batch, int slot, float gradient_scale) {
  model_->backward_input(slot, weight_slot(micro_batch), gradient_scale,
                         [&](std::size_t tensor) { take_gradient(tensor, micro_batch); });
}

void Stage::backward_weight(int micro_batch, int slot, const std::function<void(std::span<float>)>& scalars) {
  begin_gradients(micro_batch);
  model_->backward_weight(slot, weight_slot(micro_batch),
                          [&](std::size_t tensor) { take_gradient(tensor, micro_batch); });
  end_gradients(micro_batch, scalars);
}

// The first stage's gradient of a tied table: the last stage's share of the chunk comes first, as in the
// whole model, and the embedding's is added to it.
void Stage::prepare_table(int micro_batch) {
  const auto gradient = gradient_of(0);
  if (ends_chunk(micro_batch))
    links_.receive_table(gradient);
  else
    compute_.clear(gradient.data(), gradient.size_bytes());
}

void Stage::add_gradient(std::size_t tensor, int micro_batch) {
  const bool first = begins_chunk(micro_batch), last = ends_chunk(micro_batch);
  if (first && last) return;
  const auto gradient = gradient_of(tensor);
  float* const sum = sums_.data() + table_.table.tensors[tensor].offset;
  if (!last) return compute_.accumulate(gradient.data(), sum, gradient.size(), first);
  compute_.accumulate(sum, gradient.data(), gradient.size(), false);
}

// The next chunk overwrites the gradient, while this one may still be on its way.
void Stage::send_copy(int micro_batch) {
  std::span<float> from = copy(model_->tensors().gradients());
  if (copies_.size() > 0) {
    const std::size_t count = copies_.size() / from.size(),
                      at = static_cast<std::size_t>(micro_batch) % count;
    const std::span<float> kept = copies_.span().subspan(at * from.size(), from.size());
    links_.wait_sent(std::as_writable_bytes(kept));
    compute_.accumulate(from.data(), kept.data(), kept.size(), true);
    from = kept;
  }
  links_.send_table(from);
}

void Stage::write_squares(std::span<double> squares) {
  if (!squares_.empty()) {
    std::copy(squares_.begin(), squares_.end(), &squares[table_.first_tensor]);
    return;
  }
  const std::vector<std::size_t> ends = table_.table.trained_ends();
  const std::span<const float> gradients = model_->tensors().gradients();
  std::size_t begin = 0, number = table_.first_tensor;
  for (const std::size_t end : ends) {
    compute_.write_square_sum(gradients.data() + begin, end - begin, whole_.tensors[number].offset,
                              squares.data() + number);
    ++number;
    begin = end;
  }
}

std::size_t Stage::update(double norm, double learning_rate, std::int64_t step) {
  models::ModelTensors<float>& tensors = model_->tensors();
  optimizer_.update(tensors.parameters(), tensors.gradients(), norm, learning_rate, step, tensors.rounded());
  if (table_.statistics_size() > 0) tensors.update_statistics(compute_);
  if (!shards_optimizer(training_, plan_.replicas)) return 0;
  std::vector<std::size_t> counts;
  for (int replica = 0; replica < plan_.replicas; ++replica) counts.push_back(part(replica).count());
  const Share own = part(plan_.replica);
  const std::span<float> all = parameters().first(table_.table.trained_size);
  group_.all_gather_v(std::span<const float>(all.subspan(own.begin, own.count())), all, counts,
                      compute_.stream());
  round_parameters();
  return all.size_bytes();
}

// A step ends all sends before it changes the parameters.
void Stage::exchange_table() {
  if (shares_table_) links_.send_table(parameters().first(table_.table.tensors[1].offset));
  if (!table_.has_copied_table) return;
  links_.receive_table(copy(model_->tensors().parameters()));
  round_parameters();
}

}  // namespace muster::pipeline
