// SPDX-License-Identifier: Apache-2.0
// Element-wise and row-wise kernels; compiled once per instruction set (see kernels.hpp).
#include "compute/cpu/bfloat16_convert.hpp"
#include "compute/cpu/exponential.hpp"
#include "compute/cpu/kernel_dispatch.hpp"
#include "compute/cpu/residual_sum.hpp"

namespace {

using muster::compute::Token;

constexpr double layer_norm_epsilon = 1e-5;

template <typename Real>
void embed(const Token* tokens, const Real* token_table, const Real* position_table, Accurate<Real>* out,
           int begin, int end, int length, int width) {
  for (int row = begin; row < end; ++row) {
    const Real* token = token_table + std::ptrdiff_t{tokens[row]} * width;
    const Real* position = position_table + std::ptrdiff_t{row % length} * width;
    Accurate<Real>* to = out + std::ptrdiff_t{row} * width;
#pragma omp simd
    for (int i = 0; i < width; ++i) to[i] = widen(token[i]) + widen(position[i]);
  }
}

template <typename Real>
void layer_norm(const Accurate<Real>* x, const Real* addend, Accurate<Real>* sum, const Real* gain,
                const Real* bias, Real* out, Accurate<Real>* mean, Accurate<Real>* rstd, int begin, int end,
                int width) {
  using Sum = Accurate<Real>;
  for (int row = begin; row < end; ++row) {
    const std::ptrdiff_t at = std::ptrdiff_t{row} * width;
    const Sum* from = sum_residual(x, addend, sum, at, width);
    Sum total = 0;
#pragma omp simd reduction(+ : total)
    for (int i = 0; i < width; ++i) total += from[i];
    const Sum average = total / Sum(width);
    Sum squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int i = 0; i < width; ++i) squares += (from[i] - average) * (from[i] - average);
    const Sum scale = Sum(1) / __builtin_sqrt(squares / Sum(width) + Sum(layer_norm_epsilon));
    Real* to = out + at;
#pragma omp simd
    for (int i = 0; i < width; ++i)
      store(to[i], (from[i] - average) * scale * widen(gain[i]) + widen(bias[i]));
    mean[row] = average;
    rstd[row] = scale;
  }
}

template <typename Real>
void layer_norm_backward(const Accurate<Real>* x, const Real* gain, const Accurate<Real>* mean,
                         const Accurate<Real>* rstd, const Real* d_out, Accurate<Real>* d_x, Real* rounded,
                         Accurate<Real>* d_gain, Accurate<Real>* d_bias, int begin, int end, int width) {
  using Sum = Accurate<Real>;
  for (int row = begin; row < end; ++row) {
    const std::ptrdiff_t at = std::ptrdiff_t{row} * width;
    const Sum* from = x + at;
    const Real* d = d_out + at;
    Sum* to = d_x + at;
    const Sum average = mean[row], scale = rstd[row];
    Sum sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
    for (int i = 0; i < width; ++i) {
      const Sum hat = (from[i] - average) * scale;
      const Sum d_hat = widen(d[i]) * widen(gain[i]);
      sum += d_hat;
      dot += d_hat * hat;
      d_gain[i] += widen(d[i]) * hat;
      d_bias[i] += widen(d[i]);
    }
    sum /= Sum(width);
    dot /= Sum(width);
#pragma omp simd
    for (int i = 0; i < width; ++i) {
      const Sum hat = (from[i] - average) * scale;
      to[i] += (widen(d[i]) * widen(gain[i]) - sum - hat * dot) * scale;
    }
    if (rounded) store_row(to, rounded + at, width);
  }
}

template <typename Sum>
void add(const Sum* x, Sum* out, std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) out[i] += x[i];
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
  for (std::size_t i = 0; i < count; ++i) store(out[i], widen(x[i]) * gelu_gate(widen(x[i])));
}

template <typename Real>
void gelu_backward(const Real* from, Real* d_inout, std::size_t count) {
  using Sum = Accurate<Real>;
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const Sum x = widen(from[i]), gate = gelu_gate(x);
    const Sum slope = Sum(2 * sqrt_two_over_pi) * (Sum(1) + Sum(3 * gelu_cubic) * x * x);
    store(d_inout[i], widen(d_inout[i]) * (gate + x * gate * (Sum(1) - gate) * slope));
  }
}

template <typename Real>
void column_sums(const Real* x, Accurate<Real>* out, int begin, int end, int width) {
  for (int row = begin; row < end; ++row) {
    const Real* from = x + std::ptrdiff_t{row} * width;
#pragma omp simd
    for (int i = 0; i < width; ++i) out[i] += widen(from[i]);
  }
}

template <typename Real>
double mean(const Real* x, int count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < count; ++i) sum += double(widen(x[i]));
  return sum / count;
}

template <typename Real>
void cross_entropy(Real* logits, const Token* targets, double* losses, int begin, int end, int classes,
                   Accurate<Real> gradient_scale, Accurate<Real> smoothing) {
  using Sum = Accurate<Real>;
  const Sum uniform = gradient_scale * smoothing / Sum(classes);
  for (int row = begin; row < end; ++row) {
    Real* at = logits + std::ptrdiff_t{row} * classes;
    const Sum target = widen(at[targets[row]]);
    Sum largest = widen(at[0]);
#pragma omp simd reduction(max : largest)
    for (int i = 0; i < classes; ++i) largest = widen(at[i]) > largest ? widen(at[i]) : largest;
    Sum total = 0;
#pragma omp simd reduction(+ : total)
    for (int i = 0; i < classes; ++i) total += exponential(widen(at[i]) - largest);
    losses[row] = __builtin_log(double(total)) + double(largest) - double(target);
    if (gradient_scale == Sum(0)) continue;
    if (smoothing != Sum(0)) losses[row] += double(smoothing) * (double(target) - mean(at, classes));
    const Sum scale = gradient_scale / total;
    const Sum right =
        exponential(target - largest) * scale - (gradient_scale * (Sum(1) - smoothing) + uniform);
#pragma omp simd
    for (int i = 0; i < classes; ++i) store(at[i], exponential(widen(at[i]) - largest) * scale - uniform);
    store(at[targets[row]], right);
  }
}

template <typename Real>
constexpr muster::compute::cpu::RowKernels<Real> table{
    embed<Real>, layer_norm<Real>,    layer_norm_backward<Real>, add<Accurate<Real>>,
    gelu<Real>,  gelu_backward<Real>, column_sums<Real>,         cross_entropy<Real>};

}  // namespace

namespace muster::compute::cpu::MUSTER_KERNEL_SET {
const RowKernels<float> float_rows = table<float>;
const RowKernels<double> double_rows = table<double>;
const RowKernels<bfloat16> bfloat16_rows = table<muster::bfloat16>;
}  // namespace muster::compute::cpu::MUSTER_KERNEL_SET
