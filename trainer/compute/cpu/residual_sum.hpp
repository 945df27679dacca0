// SPDX-License-Identifier: Apache-2.0
// Included only by kernel sources (see kernels.hpp).
#pragma once

#include <cstddef>

#include "compute/cpu/bfloat16_convert.hpp"

namespace {

/// The row that a norm reads: `x`, or sum = x + addend unless `addend` is null. Rows start at element `at`.
template <typename Real>
const Real* sum_residual(const Real* x, const Real* addend, Real* sum, std::ptrdiff_t at, int width) {
  if (!addend) return x + at;
  const Real *left = x + at, *right = addend + at;
  Real* to = sum + at;
#pragma omp simd
  for (int i = 0; i < width; ++i) store(to[i], widen(left[i]) + widen(right[i]));
  return to;
}

}  // namespace
