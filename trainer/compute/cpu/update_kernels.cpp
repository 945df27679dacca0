// SPDX-License-Identifier: Apache-2.0
// Computes the next parameters. Compiled once per instruction set with -ffp-contract=off and a fixed order of
// additions, so that ranks on different processors hold bit-identical parameters.
#include "compute/cpu/bfloat16_convert.hpp"
#include "compute/cpu/kernel_dispatch.hpp"

namespace {

template <typename Real>
double sum_of_squares(const Real* x, std::size_t count) {
  constexpr std::size_t lanes = 16;
  double sum[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
#pragma omp simd
    for (std::size_t j = 0; j < lanes; ++j) sum[j] += double(x[i + j]) * double(x[i + j]);
  }
  for (std::size_t j = 0; i + j < count; ++j) sum[j] += double(x[i + j]) * double(x[i + j]);
  double total = 0;
  for (std::size_t j = 0; j < lanes; ++j) total += sum[j];
  return total;
}

/// In the operand's own precision: __builtin_sqrt() would take this and all that follows to double, with half
/// of the elements in a vector.
inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

template <typename Real, bool rounds>
void update(Real* parameter, const Real* gradient, Real* moment1, Real* moment2, muster::bfloat16* rounded,
            std::size_t count, Real gradient_scale, Real beta1, Real beta2, Real step_size,
            Real inverse_correction2, Real epsilon, Real decay) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const Real g = gradient[i] * gradient_scale;
    const Real m = beta1 * moment1[i] + (Real(1) - beta1) * g;
    const Real v = beta2 * moment2[i] + (Real(1) - beta2) * g * g;
    moment1[i] = m;
    moment2[i] = v;
    const Real p = parameter[i] * decay - step_size * m / (root(v * inverse_correction2) + epsilon);
    parameter[i] = p;
    if constexpr (rounds) store(rounded[i], static_cast<float>(p));
  }
}

template <typename Real>
void adamw(Real* parameter, const Real* gradient, Real* moment1, Real* moment2, muster::bfloat16* rounded,
           std::size_t count, Real gradient_scale, Real beta1, Real beta2, Real step_size,
           Real inverse_correction2, Real epsilon, Real decay) {
  const auto all = rounded ? update<Real, true> : update<Real, false>;
  all(parameter, gradient, moment1, moment2, rounded, count, gradient_scale, beta1, beta2, step_size,
      inverse_correction2, epsilon, decay);
}

template <typename Real, bool rounds>
void descend(Real* parameter, const Real* gradient, Real* momentum, muster::bfloat16* rounded,
             std::size_t count, Real gradient_scale, Real decay, Real factor, Real of_gradient,
             Real of_momentum) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const Real g = gradient[i] * gradient_scale + decay * parameter[i];
    const Real v = factor * momentum[i] + g;
    momentum[i] = v;
    const Real p = parameter[i] - (of_gradient * g + of_momentum * v);
    parameter[i] = p;
    if constexpr (rounds) store(rounded[i], static_cast<float>(p));
  }
}

template <typename Real>
void sgd(Real* parameter, const Real* gradient, Real* momentum, muster::bfloat16* rounded, std::size_t count,
         Real gradient_scale, Real decay, Real factor, bool nesterov, Real learning_rate) {
  const auto all = rounded ? descend<Real, true> : descend<Real, false>;
  all(parameter, gradient, momentum, rounded, count, gradient_scale, decay, factor,
      nesterov ? learning_rate : Real(0), nesterov ? learning_rate * factor : learning_rate);
}

template <typename Real>
void round(const Real* from, muster::bfloat16* to, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) store(to[i], static_cast<float>(from[i]));
}

template <typename Real>
constexpr muster::compute::cpu::UpdateKernels<Real> table{sum_of_squares<Real>, adamw<Real>, sgd<Real>,
                                                          round<Real>};

}  // namespace

namespace muster::compute::cpu::MUSTER_KERNEL_SET {
const UpdateKernels<float> float_update = table<float>;
const UpdateKernels<double> double_update = table<double>;
}  // namespace muster::compute::cpu::MUSTER_KERNEL_SET
