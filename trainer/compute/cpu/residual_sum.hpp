// SPDX-License-Identifier: Apache-2.0
// Included only by kernel sources (see kernels.hpp).
#pragma once

#include <cstddef>

#include "compute/cpu/bfloat16_convert.hpp"

namespace {

/// The row that a norm reads: `x`, or sum = x + addend unless `addend` is null. Rows start at element `at`.
template <typename Real>
const Accurate<Real>* sum_residual(const Accurate<Real>* x, const Real* addend, Accurate<Real>* sum,
                                   std::ptrdiff_t at, int width) {
  if (!addend) return x + at;
  const Accurate<Real>* left = x + at;
  const Real* right = addend + at;
  Accurate<Real>* to = sum + at;
#pragma omp simd
  for (int i = 0; i < width; ++i) to[i] = left[i] + widen(right[i]);
  return to;
}

/// to = x.
template <typename Real>
void store_row(const Accurate<Real>* x, Real* to, int width) {
#pragma omp simd
  for (int i = 0; i < width; ++i) store(to[i], x[i]);
}

}  // namespace
