// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/cpu_llama_compute.hpp"

#include <algorithm>

#include "compute/cpu/cpu_compute.hpp"
#include "compute/cpu/parallel_for.hpp"

namespace muster::compute::cpu {

template <typename Real>
CpuLlamaCompute<Real>::CpuLlamaCompute(CpuCompute<Real>& compute, const Kernels<Real>& kernels)
    : compute_(compute), threads_(compute.threads()), kernels_(kernels.llama) {}

template <typename Real>
template <typename Kernel>
void CpuLlamaCompute<Real>::for_rows(int rows, int width, const Kernel& kernel) {
  const auto count = static_cast<std::size_t>(rows);
  parallel_for(
      threads_, count, 1, count * static_cast<std::size_t>(width),
      [&](std::size_t begin, std::size_t end) { kernel(static_cast<int>(begin), static_cast<int>(end)); });
}

template <typename Real>
void CpuLlamaCompute<Real>::embed(const Token* tokens, const Real* token_table, Sum* out, int rows,
                                  int width) {
  for_rows(rows, width, [&](int begin, int end) {
    for (std::ptrdiff_t row = begin; row < end; ++row)
      std::transform(token_table + std::ptrdiff_t{tokens[row]} * width,
                     token_table + (std::ptrdiff_t{tokens[row]} + 1) * width, out + row * width,
                     [](Real x) { return Sum(x); });
  });
}

template <typename Real>
void CpuLlamaCompute<Real>::embed_backward(const Token* tokens, const Sum* d_out, Sum* d_token_table,
                                           int rows, int width) {
  // Threads own columns, so equal tokens cause no race. 16 floats are one cache line.
  parallel_for(threads_, static_cast<std::size_t>(width), 16, static_cast<std::size_t>(rows) * width,
               [&](std::size_t begin, std::size_t end) {
                 for (std::ptrdiff_t row = 0; row < rows; ++row) {
                   const Sum* from = d_out + row * width;
                   Sum* to = d_token_table + std::ptrdiff_t{tokens[row]} * width;
                   for (std::size_t i = begin; i < end; ++i) to[i] += from[i];
                 }
               });
}

template <typename Real>
void CpuLlamaCompute<Real>::clear(Sum* gradient, std::size_t count) {
  std::fill_n(gradient, count, Sum(0));
}

template <typename Real>
void CpuLlamaCompute<Real>::rms_norm(const Sum* x, const Real* addend, Sum* sum, const Real* gain, Real* out,
                                     Sum* rstd, int rows, int width, double epsilon) {
  for_rows(rows, width, [&](int begin, int end) {
    kernels_.rms_norm(x, addend, sum, gain, out, rstd, begin, end, width, Sum(epsilon));
  });
}

template <typename Real>
void CpuLlamaCompute<Real>::rms_norm_backward(const Sum* x, const Real* gain, const Sum* rstd,
                                              const Real* d_out, Sum* d_x, Real* rounded, Sum* d_gain,
                                              int rows, int width) {
  compute_.sum_rows(rows, width, {d_gain}, [&](Sum* sums, int begin, int end) {
    kernels_.rms_norm_backward(x, gain, rstd, d_out, d_x, rounded, sums, begin, end, width);
  });
}

template <typename Real>
void CpuLlamaCompute<Real>::rotate(const RotaryShape& s, const Sum* table, Real* x, bool back) {
  for_rows(s.rows, s.heads * s.head_width,
           [&](int begin, int end) { kernels_.rotate(s, table, x, begin, end, Sum(back ? -1 : 1)); });
}

template <typename Real>
void CpuLlamaCompute<Real>::swiglu(const Real* gate_up, Real* out, int rows, int width) {
  for_rows(rows, width, [&](int begin, int end) { kernels_.swiglu(gate_up, out, begin, end, width); });
}

template <typename Real>
void CpuLlamaCompute<Real>::swiglu_backward(const Real* gate_up, const Real* d_out, Real* d_gate_up, int rows,
                                            int width) {
  for_rows(rows, width, [&](int begin, int end) {
    kernels_.swiglu_backward(gate_up, d_out, d_gate_up, begin, end, width);
  });
}

template class CpuLlamaCompute<float>;
template class CpuLlamaCompute<double>;
template class CpuLlamaCompute<bfloat16>;

}  // namespace muster::compute::cpu
