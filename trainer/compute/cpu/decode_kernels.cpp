// SPDX-License-Identifier: Apache-2.0
// Products and attention of the few rows that generation computes at a time; compiled once per instruction
// set (see kernels.hpp). Each element of a result is one sum in a fixed order.
#include "compute/cpu/bfloat16_convert.hpp"
#include "compute/cpu/exponential.hpp"
#include "compute/cpu/kernel_dispatch.hpp"

namespace {

/// Rows of weights that are summed together, to hide the latency of additions.
constexpr int together = 4;

template <typename Real, int rows>
inline void dot_products(const Real* x, const Real* weight, Accurate<Real>* sums, int k) {
  using Sum = Accurate<Real>;
  Sum a = 0, b = 0, c = 0, d = 0;
  const Real *w0 = weight, *w1 = weight + (rows > 1 ? std::ptrdiff_t{k} : 0),
             *w2 = weight + (rows > 2 ? std::ptrdiff_t{2} * k : 0),
             *w3 = weight + (rows > 3 ? std::ptrdiff_t{3} * k : 0);
#pragma omp simd reduction(+ : a, b, c, d)
  for (int i = 0; i < k; ++i) {
    const Sum value = widen(x[i]);
    a += value * widen(w0[i]);
    if constexpr (rows > 1) b += value * widen(w1[i]);
    if constexpr (rows > 2) c += value * widen(w2[i]);
    if constexpr (rows > 3) d += value * widen(w3[i]);
  }
  const Sum all[] = {a, b, c, d};
  for (int i = 0; i < rows; ++i) sums[i] = all[i];
}

template <typename Real>
void project(const Real* x, int rows, const Real* weight, const Real* bias, Real* out, int begin, int end,
             int from, int to) {
  using Sum = Accurate<Real>;
  for (int column = begin; column < end; column += together) {
    const int count = end - column < together ? end - column : together;
    for (int row = 0; row < rows; ++row) {
      const Real* of = x + std::ptrdiff_t{row} * from;
      Sum sums[together];
      if (count == together) {
        dot_products<Real, together>(of, weight + std::ptrdiff_t{column} * from, sums, from);
      } else {
        for (int i = 0; i < count; ++i)
          dot_products<Real, 1>(of, weight + std::ptrdiff_t{column + i} * from, sums + i, from);
      }
      Real* result = out + std::ptrdiff_t{row} * to + column;
      for (int i = 0; i < count; ++i) store(result[i], sums[i] + (bias ? widen(bias[column + i]) : Sum(0)));
    }
  }
}

template <typename Real>
void attend(const Real* query, const Real* keys, const Real* values, Real* out, Accurate<Real>* scratch,
            int count, int head_width, int context) {
  using Sum = Accurate<Real>;
  Sum *scores = scratch, *mixed = scratch + context;
  const Sum scale = Sum(1) / __builtin_sqrt(Sum(head_width));
  for (int j = 0; j < count; ++j) scores[j] = 0;
  for (int d = 0; d < head_width; ++d) {
    const Sum factor = widen(query[d]) * scale;
    const Real* row = keys + std::ptrdiff_t{d} * context;
#pragma omp simd
    for (int j = 0; j < count; ++j) scores[j] += factor * widen(row[j]);
  }
  Sum largest = scores[0];
  for (int j = 1; j < count; ++j) largest = scores[j] > largest ? scores[j] : largest;
  Sum total = 0;
#pragma omp simd reduction(+ : total)
  for (int j = 0; j < count; ++j) {
    scores[j] = exponential(scores[j] - largest);
    total += scores[j];
  }
  for (int d = 0; d < head_width; ++d) mixed[d] = 0;
  for (int j = 0; j < count; ++j) {
    const Sum weight = scores[j] / total;
    const Real* row = values + std::ptrdiff_t{j} * head_width;
#pragma omp simd
    for (int d = 0; d < head_width; ++d) mixed[d] += weight * widen(row[d]);
  }
  for (int d = 0; d < head_width; ++d) store(out[d], mixed[d]);
}

template <typename Real>
constexpr muster::compute::cpu::DecodeKernels<Real> decode_table{project<Real>, attend<Real>};

}  // namespace

namespace muster::compute::cpu::MUSTER_KERNEL_SET {
const DecodeKernels<float> float_decode = decode_table<float>;
const DecodeKernels<double> double_decode = decode_table<double>;
const DecodeKernels<bfloat16> bfloat16_decode = decode_table<muster::bfloat16>;
}  // namespace muster::compute::cpu::MUSTER_KERNEL_SET
