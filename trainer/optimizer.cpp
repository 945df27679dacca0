// SPDX-License-Identifier: Apache-2.0
#include "optimizer.hpp"

#include <cmath>

namespace muster {

template <typename Real>
Adamw<Real>::Adamw(const models::TensorTable& table, const AdamwSettings& settings,
                   compute::Compute<Real>& compute)
    : table_(table),
      settings_(settings),
      compute_(compute),
      moment1_(table.arena_size),
      moment2_(table.arena_size) {}

template <typename Real>
double Adamw<Real>::norm(std::span<const Real> gradients) {
  return std::sqrt(compute_.sum_of_squares(gradients.data(), gradients.size()));
}

template <typename Real>
void Adamw<Real>::update(std::span<Real> parameters, std::span<const Real> gradients, double norm,
                         double learning_rate, std::int64_t step) {
  compute::AdamwStep scalars;
  scalars.learning_rate = learning_rate;
  scalars.beta1 = settings_.beta1;
  scalars.beta2 = settings_.beta2;
  scalars.epsilon = settings_.epsilon;
  scalars.gradient_scale = settings_.clip > 0 && norm > settings_.clip ? settings_.clip / norm : 1;
  scalars.correction1 = 1 - std::pow(settings_.beta1, static_cast<double>(step + 1));
  scalars.correction2 = 1 - std::pow(settings_.beta2, static_cast<double>(step + 1));
  for (const models::Tensor& tensor : table_.tensors) {
    scalars.weight_decay = tensor.decay ? settings_.weight_decay : 0;
    compute_.adamw(scalars, parameters.data() + tensor.offset, gradients.data() + tensor.offset,
                   moment1_.data() + tensor.offset, moment2_.data() + tensor.offset, tensor.count);
  }
}

template class Adamw<float>;
template class Adamw<double>;

}  // namespace muster
