// SPDX-License-Identifier: Apache-2.0
// Matrix products: oneDNN's, or our own in panels of columns.
#include <omp.h>

#include <algorithm>
#include <type_traits>

#include "compute/cpu/cpu_compute.hpp"
#include "compute/cpu/split.hpp"

namespace muster::compute::cpu {
namespace {

// Rows of b packed at a time: a panel of 512 * 32 floats fits a level-1 or level-2 cache.
constexpr int depth = 512;

// What the first product of columns [first, first + columns) is added to.
template <typename Real>
void begin_panel(const MatmulShape& s, const Real* bias, Real* c, int first, int columns) {
  for (int i = 0; i < s.m; ++i) {
    Real* row = c + std::ptrdiff_t{i} * s.n + first;
    for (int x = 0; x < columns; ++x)
      row[x] = (s.accumulate ? row[x] : Real(0)) + (s.bias ? bias[first + x] : Real(0));
  }
}

// Those columns of rows [top, top + rows) of b, side by side.
template <typename Real>
void pack_panel(const MatmulShape& s, const Real* b, Real* packed, int panel, int first, int columns, int top,
                int rows) {
  for (int q = 0; q < rows; ++q) {
    for (int x = 0; x < columns; ++x) {
      packed[std::ptrdiff_t{q} * panel + x] = s.transpose_b ? b[std::ptrdiff_t{first + x} * s.k + top + q]
                                                            : b[std::ptrdiff_t{top + q} * s.n + first + x];
    }
  }
}

}  // namespace

template <typename Real>
void CpuCompute<Real>::matmul(const MatmulShape& shape, const Real* a, const Real* b, const Real* bias,
                              Real* c) {
  if constexpr (std::is_same_v<Real, float>) {
    if (dnnl_) return (*dnnl_)(shape, a, b, bias, c);
  }
  own_matmul(shape, a, b, bias, c);
}

template <typename Real>
void CpuCompute<Real>::own_matmul(const MatmulShape& s, const Real* a, const Real* b, const Real* bias,
                                  Real* c) {
  const int panel = kernels_.matmul.panel_columns;
  reserve_scratch(static_cast<std::size_t>(panel) * depth);
  const std::ptrdiff_t a_row = s.transpose_a ? 1 : s.k, a_column = s.transpose_a ? s.m : 1;
  split(threads_, static_cast<std::size_t>(s.n), static_cast<std::size_t>(panel),
        static_cast<std::size_t>(s.m) * s.n * s.k, [&](std::size_t begin, std::size_t end) {
          Real* packed = scratch(omp_get_thread_num());
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

template void CpuCompute<float>::matmul(const MatmulShape&, const float*, const float*, const float*, float*);
template void CpuCompute<double>::matmul(const MatmulShape&, const double*, const double*, const double*,
                                         double*);

}  // namespace muster::compute::cpu
