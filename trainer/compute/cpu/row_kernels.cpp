// SPDX-License-Identifier: Apache-2.0
// Element-wise and row-wise kernels; compiled once per instruction set (see kernels.hpp).
#include "compute/cpu/exponential.hpp"
#include "compute/cpu/kernel_sets.hpp"

namespace {

using muster::compute::Token;

constexpr double layer_norm_epsilon = 1e-5;

template <typename Real>
void embed(const Token* tokens, const Real* token_table, const Real* position_table, Real* out, int begin,
           int end, int length, int width) {
  for (int row = begin; row < end; ++row) {
    const Real* token = token_table + std::ptrdiff_t{tokens[row]} * width;
    const Real* position = position_table + std::ptrdiff_t{row % length} * width;
    Real* to = out + std::ptrdiff_t{row} * width;
#pragma omp simd
    for (int i = 0; i < width; ++i) to[i] = token[i] + position[i];
  }
}

template <typename Real>
void layer_norm(const Real* x, const Real* addend, Real* sum, const Real* gain, const Real* bias, Real* out,
                Real* mean, Real* rstd, int begin, int end, int width) {
  for (int row = begin; row < end; ++row) {
    const std::ptrdiff_t at = std::ptrdiff_t{row} * width;
    const Real* from = x + at;
    if (addend) {
      const Real *left = x + at, *right = addend + at;
      Real* to = sum + at;
#pragma omp simd
      for (int i = 0; i < width; ++i) to[i] = left[i] + right[i];
      from = to;
    }
    Real total = 0;
#pragma omp simd reduction(+ : total)
    for (int i = 0; i < width; ++i) total += from[i];
    const Real average = total / Real(width);
    Real squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int i = 0; i < width; ++i) squares += (from[i] - average) * (from[i] - average);
    const Real scale = Real(1) / __builtin_sqrt(squares / Real(width) + Real(layer_norm_epsilon));
    Real* to = out + at;
#pragma omp simd
    for (int i = 0; i < width; ++i) to[i] = (from[i] - average) * scale * gain[i] + bias[i];
    mean[row] = average;
    rstd[row] = scale;
  }
}

template <typename Real>
void layer_norm_backward(const Real* x, const Real* gain, const Real* mean, const Real* rstd,
                         const Real* d_out, Real* d_x, Real* d_gain, Real* d_bias, int begin, int end,
                         int width) {
  for (int row = begin; row < end; ++row) {
    const std::ptrdiff_t at = std::ptrdiff_t{row} * width;
    const Real *from = x + at, *d = d_out + at;
    Real* to = d_x + at;
    const Real average = mean[row], scale = rstd[row];
    Real sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
    for (int i = 0; i < width; ++i) {
      const Real hat = (from[i] - average) * scale;
      const Real d_hat = d[i] * gain[i];
      sum += d_hat;
      dot += d_hat * hat;
      d_gain[i] += d[i] * hat;
      d_bias[i] += d[i];
    }
    sum /= Real(width);
    dot /= Real(width);
#pragma omp simd
    for (int i = 0; i < width; ++i) {
      const Real hat = (from[i] - average) * scale;
      to[i] += (d[i] * gain[i] - sum - hat * dot) * scale;
    }
  }
}

template <typename Real>
void add(const Real* x, const Real* addend, Real* out, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) out[i] = x[i] + addend[i];
}

// GELU with tanh (Hendrycks and Gimpel, arXiv 1606.08415), written as x * sigmoid(2u), u = sqrt(2/pi) (x +
// 0.044715 x^3): 0.5 (1 + tanh u) = sigmoid(2u).
constexpr double sqrt_two_over_pi = 0.79788456080286535588;
constexpr double gelu_cubic = 0.044715;

template <typename Real>
inline Real gelu_gate(Real x) {
  const Real u = Real(sqrt_two_over_pi) * x * (Real(1) + Real(gelu_cubic) * x * x);
  // The bound keeps 1 / (1 + e^60) far from denormal numbers, on which processors are a hundred times slower;
  // compilers compute it for every lane, clamped or not.
  return Real(1) / (Real(1) + exponential(clamped(Real(-2) * u, Real(-60), Real(60))));
}

template <typename Real>
void gelu(const Real* x, Real* out, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) out[i] = x[i] * gelu_gate(x[i]);
}

template <typename Real>
void gelu_backward(const Real* x, Real* d_inout, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const Real gate = gelu_gate(x[i]);
    const Real slope = Real(2 * sqrt_two_over_pi) * (Real(1) + Real(3 * gelu_cubic) * x[i] * x[i]);
    d_inout[i] *= gate + x[i] * gate * (Real(1) - gate) * slope;
  }
}

template <typename Real>
void column_sums(const Real* x, Real* out, int begin, int end, int width) {
  for (int row = begin; row < end; ++row) {
    const Real* from = x + std::ptrdiff_t{row} * width;
#pragma omp simd
    for (int i = 0; i < width; ++i) out[i] += from[i];
  }
}

template <typename Real>
void cross_entropy(Real* logits, const Token* targets, double* losses, int begin, int end, int classes,
                   Real gradient_scale) {
  for (int row = begin; row < end; ++row) {
    Real* at = logits + std::ptrdiff_t{row} * classes;
    const Real target = at[targets[row]];
    Real largest = at[0];
#pragma omp simd reduction(max : largest)
    for (int i = 0; i < classes; ++i) largest = at[i] > largest ? at[i] : largest;
    Real total = 0;
    if (gradient_scale == Real(0)) {
#pragma omp simd reduction(+ : total)
      for (int i = 0; i < classes; ++i) total += exponential(at[i] - largest);
    } else {
#pragma omp simd reduction(+ : total)
      for (int i = 0; i < classes; ++i) {
        at[i] = exponential(at[i] - largest);
        total += at[i];
      }
      const Real scale = gradient_scale / total;
#pragma omp simd
      for (int i = 0; i < classes; ++i) at[i] *= scale;
      at[targets[row]] -= gradient_scale;
    }
    losses[row] = __builtin_log(double(total)) + double(largest) - double(target);
  }
}

template <typename Real>
constexpr muster::compute::cpu::RowKernels<Real> table{
    embed<Real>, layer_norm<Real>,    layer_norm_backward<Real>, add<Real>,
    gelu<Real>,  gelu_backward<Real>, column_sums<Real>,         cross_entropy<Real>};

}  // namespace

namespace muster::compute::cpu::MUSTER_KERNEL_SET {
const RowKernels<float> float_rows = table<float>;
const RowKernels<double> double_rows = table<double>;
}  // namespace muster::compute::cpu::MUSTER_KERNEL_SET
