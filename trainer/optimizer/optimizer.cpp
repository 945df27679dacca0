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
Adamw<Real>::Adamw(const models::TensorTable& table, const AdamwSettings& settings,
                   compute::UpdateCompute<Real>& compute, Share part)
    : table_(table),
      settings_(settings),
      compute_(compute),
      part_(part),
      moment1_(part.count(), compute.memory()),
      moment2_(part.count(), compute.memory()) {}

template <typename Real>
void Adamw<Real>::update(std::span<Real> parameters, std::span<const Real> gradients, double norm,
                         double learning_rate, std::int64_t step, std::span<bfloat16> rounded) {
  compute::AdamwStep scalars;
  scalars.learning_rate = learning_rate;
  scalars.beta1 = settings_.beta1;
  scalars.beta2 = settings_.beta2;
  scalars.epsilon = settings_.epsilon;
  scalars.gradient_scale = settings_.clip > 0 && norm > settings_.clip ? settings_.clip / norm : 1;
  scalars.correction1 = 1 - std::pow(settings_.beta1, static_cast<double>(step + 1));
  scalars.correction2 = 1 - std::pow(settings_.beta2, static_cast<double>(step + 1));
  for (const models::Tensor& tensor : table_.tensors) {
    if (!tensor.is_trained) continue;
    const std::size_t begin = std::max<std::size_t>(tensor.offset, part_.begin);
    const std::size_t end = std::min<std::size_t>(tensor.offset + tensor.count, part_.end);
    if (begin >= end) continue;
    scalars.weight_decay = tensor.decay ? settings_.weight_decay : 0;
    compute_.adamw(scalars, parameters.data() + begin, gradients.data() + begin,
                   moment1_.data() + (begin - part_.begin), moment2_.data() + (begin - part_.begin),
                   rounded.empty() ? nullptr : rounded.data() + begin, end - begin);
  }
}

template class Adamw<float>;
template class Adamw<double>;

}  // namespace muster
