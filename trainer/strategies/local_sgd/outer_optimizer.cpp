// SPDX-License-Identifier: Apache-2.0
// Compiled without contraction to fused multiply-add, so that ranks on different processors compute the same
// bits.
#include "strategies/local_sgd/outer_optimizer.hpp"

#include <algorithm>

namespace muster {

template <typename Real>
OuterOptimizer<Real>::OuterOptimizer(const OuterOptimizerSettings& settings, std::size_t size,
                                     std::size_t trained, int threads)
    : settings_(settings), trained_(trained), threads_(threads), parameters_(size), momentum_(size) {}

template <typename Real>
void OuterOptimizer<Real>::start_from(std::span<const Real> parameters) {
  std::copy(parameters.begin(), parameters.end(), parameters_.data());
}

template <typename Real>
void OuterOptimizer<Real>::update(std::span<Real> mean) {
  Real *const parameter = parameters_.data(), *const momentum = momentum_.data(), *const moved = mean.data();
  const Real rate = Real(settings_.learning_rate), factor = Real(settings_.momentum);
#pragma omp parallel for simd num_threads(threads_)
  for (std::size_t i = 0; i < trained_; ++i) {
    const Real d = parameter[i] - moved[i];
    const Real v = factor * momentum[i] + d;
    momentum[i] = v;
    parameter[i] = moved[i] = parameter[i] - rate * (d + factor * v);
  }
  std::copy(moved + trained_, moved + mean.size(), parameter + trained_);
}

template class OuterOptimizer<float>;
template class OuterOptimizer<double>;

}  // namespace muster
