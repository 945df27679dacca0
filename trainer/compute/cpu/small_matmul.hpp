// SPDX-License-Identifier: Apache-2.0
// Register-tiled matrix product on strided operands, for attention's small matrices and for builds without
// oneDNN. Included only by kernel sources: everything has internal linkage (see kernels.hpp).
#pragma once

#include <cstddef>

namespace {

// Registers: tile_rows * 2 for accumulators, two for b and one for a: 19 of 32 with AVX-512, 15 of 16 with
// AVX2, 11 of 16 with SSE2.
#if defined(__AVX512F__)
constexpr int vector_bytes = 64, tile_rows = 8;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32, tile_rows = 6;
#else
constexpr int vector_bytes = 16, tile_rows = 4;
#endif

template <typename Real>
struct VectorOf {
  typedef Real type __attribute__((vector_size(vector_bytes), aligned(sizeof(Real)), may_alias));
};

template <typename Real>
constexpr int lanes = vector_bytes / static_cast<int>(sizeof(Real));
/// Columns of c that one register tile covers.
template <typename Real>
constexpr int tile_columns = 2 * lanes<Real>;

template <typename Real>
struct Operand {
  const Real* data;
  std::ptrdiff_t row, column;
};

template <typename Real, int rows>
inline void matmul_tile(int k, Operand<Real> a, const Real* b, std::ptrdiff_t b_row, Real* c,
                        std::ptrdiff_t c_row, bool accumulate) {
  using Vector = typename VectorOf<Real>::type;
  Vector sum[rows][2];
  for (int r = 0; r < rows; ++r) {
    Vector* row = reinterpret_cast<Vector*>(c + r * c_row);
    sum[r][0] = accumulate ? row[0] : Vector{};
    sum[r][1] = accumulate ? row[1] : Vector{};
  }
  for (int p = 0; p < k; ++p) {
    const Vector* from = reinterpret_cast<const Vector*>(b + p * b_row);
    const Vector b0 = from[0], b1 = from[1];
    const Real* column = a.data + p * a.column;
    for (int r = 0; r < rows; ++r) {
      const Real value = column[r * a.row];
      sum[r][0] += b0 * value;
      sum[r][1] += b1 * value;
    }
  }
  for (int r = 0; r < rows; ++r) {
    Vector* row = reinterpret_cast<Vector*>(c + r * c_row);
    row[0] = sum[r][0];
    row[1] = sum[r][1];
  }
}

/// The last columns, fewer than a register tile.
template <typename Real>
inline void matmul_edge(int m, int columns, int k, Operand<Real> a, const Real* b, std::ptrdiff_t b_row,
                        Real* c, std::ptrdiff_t c_row, bool accumulate) {
  for (int i = 0; i < m; ++i) {
    Real sum[tile_columns<Real>];
    for (int j = 0; j < columns; ++j) sum[j] = accumulate ? c[i * c_row + j] : Real(0);
    for (int p = 0; p < k; ++p) {
      const Real value = a.data[i * a.row + p * a.column];
      const Real* from = b + p * b_row;
#pragma omp simd
      for (int j = 0; j < columns; ++j) sum[j] += value * from[j];
    }
    for (int j = 0; j < columns; ++j) c[i * c_row + j] = sum[j];
  }
}

/// c[m,n] (+)= a[m,k]·b[k,n]; b's and c's columns are contiguous.
template <typename Real>
inline void small_matmul(int m, int n, int k, Operand<Real> a, const Real* b, std::ptrdiff_t b_row, Real* c,
                         std::ptrdiff_t c_row, bool accumulate) {
  int j = 0;
  for (; j + tile_columns<Real> <= n; j += tile_columns<Real>) {
    int i = 0;
    for (; i + tile_rows <= m; i += tile_rows) {
      matmul_tile<Real, tile_rows>(k, {a.data + i * a.row, a.row, a.column}, b + j, b_row, c + i * c_row + j,
                                   c_row, accumulate);
    }
    for (; i < m; ++i) {
      matmul_tile<Real, 1>(k, {a.data + i * a.row, a.row, a.column}, b + j, b_row, c + i * c_row + j, c_row,
                           accumulate);
    }
  }
  if (j < n) matmul_edge<Real>(m, n - j, k, a, b + j, b_row, c + j, c_row, accumulate);
}

}  // namespace
