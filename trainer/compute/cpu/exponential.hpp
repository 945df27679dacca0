// SPDX-License-Identifier: Apache-2.0
// exp() that the compiler can vectorize. Included only by kernel sources (see kernels.hpp).
#pragma once

#include <cmath>
#include <cstdint>

namespace {

/// NaN stays NaN.
template <typename Real>
inline Real clamped(Real x, Real low, Real high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

/// Relative error below 2e-7 on [-87, 88]; smaller arguments give about 1e-38, larger ones about 1.6e38. NaN
/// stays NaN. Argument reduction x = n ln 2 + r by Cody and Waite; polynomial coefficients from Cephes' expf
/// (S. Moshier).
inline float exponential(float x) {
  x = clamped(x, -87.0f, 88.0f);
  constexpr float rounder =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  const float shifted = x * 1.44269504088896341f + rounder;
  const float n = shifted - rounder;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const std::int32_t exponent = static_cast<std::int32_t>(
      (__builtin_bit_cast(std::uint32_t, shifted) - __builtin_bit_cast(std::uint32_t, rounder) + 127u) << 23);
  return p * __builtin_bit_cast(float, exponent);
}

inline double exponential(double x) { return __builtin_exp(x); }

}  // namespace
