// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN, or by our tiled product in panels of columns.
#include <omp.h>

#include <algorithm>
#include <type_traits>

#include "compute/cpu/cpu_compute.hpp"
#include "compute/cpu/parallel_for.hpp"

namespace muster::compute::cpu {
namespace {

// Rows of b packed at a time: a panel of 512 * 32 floats fits a level-1 or level-2 cache.
constexpr int depth = 512;

// Sets columns [first, first + columns) of c to the value that the first product is added to.
template <typename Real>
void begin_panel(const MatmulShape& s, const Real* bias, Accurate<Real>* c, int first, int columns) {
  using Sum = Accurate<Real>;
  for (int i = 0; i < s.m; ++i) {
    Sum* row = c + std::ptrdiff_t{i} * s.n + first;
    for (int x = 0; x < columns; ++x)
      row[x] = (s.accumulate ? row[x] : Sum(0)) + (s.bias ? Sum(bias[first + x]) : Sum(0));
  }
}

// Copies those columns of rows [top, top + rows) of b side by side.
template <typename Real>
void pack_panel(const MatmulShape& s, const Real* b, Accurate<Real>* packed, int panel, int first,
                int columns, int top, int rows) {
  for (int q = 0; q < rows; ++q) {
    for (int x = 0; x < columns; ++x) {
      const std::ptrdiff_t from = s.transpose_b ? std::ptrdiff_t{first + x} * s.k + top + q
                                                : std::ptrdiff_t{top + q} * s.n + first + x;
      packed[std::ptrdiff_t{q} * panel + x] = Accurate<Real>(b[from]);
    }
  }
}

}  // namespace

template <typename Real>
void CpuCompute<Real>::matmul(const MatmulShape& shape, const Real* a, const Real* b, const Real* bias,
                              Real* c) {
  if constexpr (!std::is_same_v<Real, double>) {
    if (dnnl_) return (*dnnl_)(shape, a, b, bias, c);
  }
  tiled_matmul(shape, a, b, bias, c);
}

template <typename Real>
void CpuCompute<Real>::weight_gradient(int rows, int from, int to, const Real* input, const Real* d_out,
                                       Sum* d_weight, Sum* d_bias) {
  const MatmulShape shape{.m = to, .n = from, .k = rows, .transpose_a = true};
  if (d_bias) column_sums(d_out, d_bias, rows, to);
  if constexpr (std::is_same_v<Real, float>) {
    if (dnnl_) return (*dnnl_)(shape, d_out, input, nullptr, d_weight);
  } else if constexpr (std::is_same_v<Real, bfloat16>) {
    if (dnnl_) return dnnl_->weight_gradient(rows, from, to, input, d_out, d_weight);
  }
  tiled_matmul(shape, d_out, input, nullptr, d_weight);
}

// The tiled product has one type for sums, a and c: operands of other types are widened first, and results
// are rounded afterwards.
template <typename Real>
template <typename Out>
void CpuCompute<Real>::tiled_matmul(const MatmulShape& s, const Real* a, const Real* b, const Real* bias,
                                    Out* c) {
  if constexpr (std::is_same_v<Real, Sum>) {
    tiled_panels(s, a, b, bias, c);
  } else {
    const std::size_t size = static_cast<std::size_t>(s.m) * s.k;
    if (wide_a_.size() < size) wide_a_ = Arena<Sum>(size);
    std::transform(a, a + size, wide_a_.data(), [](Real x) { return Sum(x); });
    if constexpr (std::is_same_v<Out, Sum>) {
      tiled_panels(s, wide_a_.data(), b, bias, c);
    } else {
      const std::size_t out_size = static_cast<std::size_t>(s.m) * s.n;
      if (wide_c_.size() < out_size) wide_c_ = Arena<Sum>(out_size);
      if (s.accumulate) std::transform(c, c + out_size, wide_c_.data(), [](Out x) { return Sum(x); });
      tiled_panels(s, wide_a_.data(), b, bias, wide_c_.data());
      round(wide_c_.data(), c, out_size);
    }
  }
}

template <typename Real>
void CpuCompute<Real>::tiled_panels(const MatmulShape& s, const Sum* a, const Real* b, const Real* bias,
                                    Sum* c) {
  const int panel = kernels_.matmul.panel_columns;
  reserve_scratch(static_cast<std::size_t>(panel) * depth);
  const std::ptrdiff_t a_row = s.transpose_a ? 1 : s.k, a_column = s.transpose_a ? s.m : 1;
  parallel_for(threads_, static_cast<std::size_t>(s.n), static_cast<std::size_t>(panel),
               static_cast<std::size_t>(s.m) * s.n * s.k, [&](std::size_t begin, std::size_t end) {
                 Sum* packed = scratch(omp_get_thread_num());
                 for (int first = static_cast<int>(begin); first < static_cast<int>(end); first += panel) {
                   const int columns = std::min(panel, static_cast<int>(end) - first);
                   if (s.bias || s.accumulate) begin_panel(s, bias, c, first, columns);
                   for (int top = 0; top < s.k; top += depth) {
                     const int rows = std::min(depth, s.k - top);
                     pack_panel(s, b, packed, panel, first, columns, top, rows);
                     kernels_.matmul.panel(s.m, columns, rows, a + top * a_column, a_row, a_column, packed,
                                           c + first, s.n, s.bias || s.accumulate || top > 0);
                   }
                 }
               });
}

#define MUSTER_MATMUL(Real)                                                                                 \
  template void CpuCompute<Real>::matmul(const MatmulShape&, const Real*, const Real*, const Real*, Real*); \
  template void CpuCompute<Real>::weight_gradient(int, int, int, const Real*, const Real*, Sum*, Sum*);
MUSTER_MATMUL(float)
MUSTER_MATMUL(double)
MUSTER_MATMUL(bfloat16)
#undef MUSTER_MATMUL

}  // namespace muster::compute::cpu
