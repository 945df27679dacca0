// SPDX-License-Identifier: Apache-2.0
// Reads and writes elements of any precision, in loops that the compiler can vectorize. Included only by
// kernel sources (see kernels.hpp). They use only the bits of muster::bfloat16: its member functions could be
// linked from another instruction set's object.
#pragma once

#include <cstdint>

#include "compute/precision.hpp"

namespace {

using muster::compute::Accurate;

inline float widen(const muster::bfloat16& x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}
inline float widen(const float& x) { return x; }
inline double widen(const double& x) { return x; }

/// Rounds to nearest, ties to even; NaN stays NaN.
inline void store(muster::bfloat16& to, float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  to.bits = static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
inline void store(float& to, float value) { to = value; }
inline void store(double& to, double value) { to = value; }

}  // namespace
