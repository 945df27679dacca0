// SPDX-License-Identifier: Apache-2.0
#include "strategies/parameter_server/slice_optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "models/model_tensors.hpp"

namespace muster {

models::TensorTable slice_table(const models::TensorTable& whole, const Share& part) {
  models::TensorTable table;
  table.arena_size = part.count();
  table.trained_size = std::clamp<std::size_t>(whole.trained_size, part.begin, part.end) - part.begin;
  for (models::Tensor tensor : whole.tensors) {
    const std::size_t begin = std::max<std::size_t>(tensor.offset, part.begin);
    const std::size_t end = std::min<std::size_t>(tensor.offset + tensor.count, part.end);
    if (begin >= end) continue;
    tensor.offset = begin - part.begin;
    tensor.count = end - begin;
    if (tensor.is_trained) table.parameter_count += tensor.count;
    table.tensors.push_back(std::move(tensor));
  }
  return table;
}

SliceOptimizer::SliceOptimizer(const models::TensorTable& whole, const Share& slice, const Settings& settings,
                               compute::UpdateCompute<float>& compute, std::optional<Communicator> servers)
    : slice_(slice),
      tensor_ends_(whole.trained_ends()),
      table_(slice_table(whole, slice)),
      settings_(settings),
      compute_(compute),
      servers_(std::move(servers)),
      parameters_(slice.count()),
      optimizer_(table_, settings.optimizer, compute) {}

std::vector<std::span<float>> SliceOptimizer::arrays() {
  std::vector<std::span<float>> arrays{parameters_.span(), optimizer_.moment1()};
  if (Optimizer<float>::moment_count(settings_.optimizer.kind) == 2) arrays.push_back(optimizer_.moment2());
  return arrays;
}

// The same additions in the same order as UpdateCompute::decide() over the whole arena, whose blocks no slice
// divides: each server continues the sums of the one before.
double SliceOptimizer::norm(std::span<const float> gradient) {
  double sums[] = {0, 0};  // of the tensors before, and of the one that goes on in the next slice
  auto& [total, tensor] = sums;
  if (servers_ && servers_->rank() > 0) servers_->recv(std::span(sums), servers_->rank() - 1);
  std::size_t at = slice_.begin;
  for (const std::size_t tensor_end : tensor_ends_) {
    for (const std::size_t end = std::min<std::size_t>(tensor_end, slice_.end); at < end;) {
      const std::size_t next = std::min(end, (at / compute::norm_block + 1) * compute::norm_block);
      tensor += compute_.sum_of_squares(&gradient[at - slice_.begin], next - at, at);
      at = next;
    }
    if (tensor_end > slice_.end || tensor_end <= slice_.begin) continue;
    total += tensor;
    tensor = 0;
  }
  if (servers_) {
    const int last = servers_->size() - 1;
    if (servers_->rank() < last) servers_->send(std::span<const double>(sums), servers_->rank() + 1);
    servers_->broadcast(std::span(&total, 1), last);
  }
  return std::sqrt(total);
}

void SliceOptimizer::move_statistics(std::span<const float> gradient, double momentum) {
  const std::size_t count = table_.arena_size - table_.trained_size;
  if (count == 0) return;
  compute_.move_statistics(parameters_.span().last(count).data(), gradient.last(count).data(), count,
                           momentum);
}

SliceOptimizer::Outcome SliceOptimizer::update(const ParameterUpdate& update) {
  if (update.arguments.size() != UpdateArguments::count)
    throw std::runtime_error(fmt::format("a worker pushed {} numbers with its gradient instead of {}",
                                         update.arguments.size(), int{UpdateArguments::count}));
  const auto argument = [&](UpdateArguments::Number number) {
    return update.arguments[static_cast<std::size_t>(number)];
  };
  const auto step = static_cast<std::int64_t>(argument(UpdateArguments::step));
  const double share = argument(UpdateArguments::share);
  Outcome outcome;
  if (settings_.synchronous) outcome.norm = norm(update.gradient.first(table_.trained_size));
  outcome.finite = argument(UpdateArguments::non_finite) == 0 && std::isfinite(outcome.norm);
  if (!outcome.finite) return outcome;
  const double rate = argument(UpdateArguments::learning_rate);
  if (settings_.synchronous) {
    optimizer_.update(parameters_.span(), update.gradient, outcome.norm, rate, step);
    move_statistics(update.gradient, models::statistic_momentum);
    return outcome;
  }
  // All updates of a step together move the parameters as far as one with the step's learning rate.
  updates_ = step == last_step_ ? updates_ + 1 : 0;
  last_step_ = step;
  const auto tasks = static_cast<std::int64_t>(settings_.tasks_per_step);
  const auto number = std::min(static_cast<std::int64_t>(updates_), tasks - 1);
  optimizer_.update(parameters_.span(), update.gradient, 0, rate * share, step * tasks + number);
  move_statistics(update.gradient, models::statistic_momentum * share);
  return outcome;
}

}  // namespace muster
