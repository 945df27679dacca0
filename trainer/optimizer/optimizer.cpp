// SPDX-License-Identifier: Apache-2.0
#include "optimizer/optimizer.hpp"

#include <algorithm>
#include <cmath>

namespace muster {

Share optimizer_part(std::size_t arena_size, int rank, int size) {
  constexpr std::size_t line = compute::aligned_count<float>(1);
  const Share lines = share_of((arena_size + line - 1) / line, rank, size);
  return {std::min<std::uint64_t>(lines.begin * line, arena_size),
          std::min<std::uint64_t>(lines.end * line, arena_size)};
}

template <typename Real>
Optimizer<Real>::Optimizer(const models::TensorTable& table, const OptimizerSettings& settings,
                           compute::UpdateCompute<Real>& compute, Share part)
    : table_(table),
      settings_(settings),
      compute_(compute),
      part_(part),
      first_(part.count(), compute.memory()),
      second_(settings.kind == OptimizerKind::adamw ? part.count() : 0, compute.memory()),
      moments_{first_.span(), second_.span()} {}

template <typename Real>
Optimizer<Real>::Optimizer(const models::TensorTable& table, const OptimizerSettings& settings,
                           compute::UpdateCompute<Real>& compute, Share part, const Moments& moments)
    : table_(table), settings_(settings), compute_(compute), part_(part), moments_(moments) {}

template <typename Real>
void Optimizer<Real>::update(std::span<Real> parameters, std::span<const Real> gradients, double norm,
                             double learning_rate, std::int64_t step, std::span<bfloat16> rounded) {
  const double scale = settings_.clip > 0 && norm > settings_.clip ? settings_.clip / norm : 1;
  if (settings_.kind == OptimizerKind::sgd)
    return update_sgd(parameters, gradients, scale, learning_rate, rounded);
  update_adamw(parameters, gradients, scale, learning_rate, step, rounded);
}

template <typename Real>
template <typename Update>
void Optimizer<Real>::for_each_tensor(const Update& update) {
  for (const models::Tensor& tensor : table_.tensors) {
    if (!tensor.is_trained) continue;
    const std::size_t begin = std::max<std::size_t>(tensor.offset, part_.begin);
    const std::size_t end = std::min<std::size_t>(tensor.offset + tensor.count, part_.end);
    if (begin < end) update(Share{begin, end}, tensor.decay);
  }
}

template <typename Real>
void Optimizer<Real>::update_adamw(std::span<Real> parameters, std::span<const Real> gradients,
                                   double gradient_scale, double learning_rate, std::int64_t step,
                                   std::span<bfloat16> rounded) {
  compute::AdamwStep scalars;
  scalars.learning_rate = learning_rate;
  scalars.beta1 = settings_.beta1;
  scalars.beta2 = settings_.beta2;
  scalars.epsilon = settings_.epsilon;
  scalars.gradient_scale = gradient_scale;
  scalars.correction1 = 1 - std::pow(settings_.beta1, static_cast<double>(step + 1));
  scalars.correction2 = 1 - std::pow(settings_.beta2, static_cast<double>(step + 1));
  for_each_tensor([&](const Share& range, bool decay) {
    scalars.weight_decay = decay ? settings_.weight_decay : 0;
    const std::size_t own = range.begin - part_.begin;
    compute_.adamw(scalars, parameters.data() + range.begin, gradients.data() + range.begin,
                   moments_.first.data() + own, moments_.second.data() + own,
                   rounded.empty() ? nullptr : rounded.data() + range.begin, range.count());
  });
}

template <typename Real>
void Optimizer<Real>::update_sgd(std::span<Real> parameters, std::span<const Real> gradients,
                                 double gradient_scale, double learning_rate, std::span<bfloat16> rounded) {
  compute::SgdStep scalars{learning_rate, settings_.momentum, settings_.nesterov, 0, gradient_scale};
  for_each_tensor([&](const Share& range, bool decay) {
    scalars.weight_decay = decay ? settings_.weight_decay : 0;
    compute_.sgd(scalars, parameters.data() + range.begin, gradients.data() + range.begin,
                 moments_.first.data() + (range.begin - part_.begin),
                 rounded.empty() ? nullptr : rounded.data() + range.begin, range.count());
  });
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace muster
