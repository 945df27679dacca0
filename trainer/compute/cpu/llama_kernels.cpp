// SPDX-License-Identifier: Apache-2.0
// The Llama kind's norm, rotary positions and gated MLP; compiled once per instruction set (see kernels.hpp).
#include "compute/cpu/bfloat16_convert.hpp"
#include "compute/cpu/exponential.hpp"
#include "compute/cpu/kernel_dispatch.hpp"
#include "compute/cpu/residual_sum.hpp"

namespace {

template <typename Real>
void rms_norm(const Accurate<Real>* x, const Real* addend, Accurate<Real>* sum, const Real* gain, Real* out,
              Accurate<Real>* rstd, int begin, int end, int width, Accurate<Real> epsilon) {
  using Sum = Accurate<Real>;
  for (int row = begin; row < end; ++row) {
    const std::ptrdiff_t at = std::ptrdiff_t{row} * width;
    const Sum* from = sum_residual(x, addend, sum, at, width);
    Sum squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int i = 0; i < width; ++i) squares += from[i] * from[i];
    const Sum scale = Sum(1) / __builtin_sqrt(squares / Sum(width) + epsilon);
    Real* to = out + at;
#pragma omp simd
    for (int i = 0; i < width; ++i) store(to[i], from[i] * scale * widen(gain[i]));
    rstd[row] = scale;
  }
}

template <typename Real>
void rms_norm_backward(const Accurate<Real>* x, const Real* gain, const Accurate<Real>* rstd,
                       const Real* d_out, Accurate<Real>* d_x, Real* rounded, Accurate<Real>* d_gain,
                       int begin, int end, int width) {
  using Sum = Accurate<Real>;
  for (int row = begin; row < end; ++row) {
    const std::ptrdiff_t at = std::ptrdiff_t{row} * width;
    const Sum* from = x + at;
    const Real* d = d_out + at;
    Sum* to = d_x + at;
    const Sum scale = rstd[row];
    Sum dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int i = 0; i < width; ++i) {
      const Sum hat = from[i] * scale;
      dot += widen(d[i]) * widen(gain[i]) * hat;
      d_gain[i] += widen(d[i]) * hat;
    }
    dot /= Sum(width);
#pragma omp simd
    for (int i = 0; i < width; ++i) {
      const Sum hat = from[i] * scale;
      to[i] += (widen(d[i]) * widen(gain[i]) - hat * dot) * scale;
    }
    if (rounded) store_row(to, rounded + at, width);
  }
}

template <typename Real>
void rotate(const muster::compute::RotaryShape& s, const Accurate<Real>* table, Real* x, int begin, int end,
            Accurate<Real> sign) {
  using Sum = Accurate<Real>;
  const int half = s.head_width / 2;
  for (int row = begin; row < end; ++row) {
    const Sum* cosines = table + std::ptrdiff_t{s.first + row % s.length} * s.head_width;
    const Sum* sines = cosines + half;
    for (int head = 0; head < s.heads; ++head) {
      Real* low = x + std::ptrdiff_t{row} * s.row_width + head * s.head_width;
      Real* high = low + half;
#pragma omp simd
      for (int i = 0; i < half; ++i) {
        const Sum a = widen(low[i]), b = widen(high[i]), sine = sign * sines[i];
        store(low[i], a * cosines[i] - b * sine);
        store(high[i], b * cosines[i] + a * sine);
      }
    }
  }
}

/// 1 / (1 + e^-x). The bound keeps compilers from computing with denormal numbers, which are slow.
template <typename Real>
inline Real sigmoid(Real x) {
  return Real(1) / (Real(1) + exponential(clamped(-x, Real(-60), Real(60))));
}

template <typename Real>
void swiglu(const Real* gate_up, Real* out, int begin, int end, int width) {
  using Sum = Accurate<Real>;
  for (std::ptrdiff_t row = begin; row < end; ++row) {
    const Real *gate = gate_up + row * 2 * width, *up = gate + width;
    Real* to = out + row * width;
#pragma omp simd
    for (int i = 0; i < width; ++i) {
      const Sum x = widen(gate[i]);
      store(to[i], x * sigmoid(x) * widen(up[i]));
    }
  }
}

template <typename Real>
void swiglu_backward(const Real* gate_up, const Real* d_out, Real* d_gate_up, int begin, int end, int width) {
  using Sum = Accurate<Real>;
  for (std::ptrdiff_t row = begin; row < end; ++row) {
    const Real *gate = gate_up + row * 2 * width, *up = gate + width, *d = d_out + row * width;
    Real *d_gate = d_gate_up + row * 2 * width, *d_up = d_gate + width;
#pragma omp simd
    for (int i = 0; i < width; ++i) {
      const Sum x = widen(gate[i]), s = sigmoid(x), slope = widen(d[i]);
      store(d_up[i], slope * x * s);
      store(d_gate[i], slope * widen(up[i]) * s * (Sum(1) + x * (Sum(1) - s)));
    }
  }
}

template <typename Real>
constexpr muster::compute::cpu::LlamaKernels<Real> llama_table{
    rms_norm<Real>, rms_norm_backward<Real>, rotate<Real>, swiglu<Real>, swiglu_backward<Real>};

}  // namespace

namespace muster::compute::cpu::MUSTER_KERNEL_SET {
const LlamaKernels<float> float_llama = llama_table<float>;
const LlamaKernels<double> double_llama = llama_table<double>;
const LlamaKernels<bfloat16> bfloat16_llama = llama_table<muster::bfloat16>;
}  // namespace muster::compute::cpu::MUSTER_KERNEL_SET
