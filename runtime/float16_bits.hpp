// SPDX-License-Identifier: Apache-2.0
// Bit arithmetic of the 16-bit floating-point types: inline for the reduction loops, constexpr so that GPU
// code can use it too.
#pragma once

#include <bit>
#include <cstdint>

namespace muster::detail {

/// binary32 to bfloat16, nearest even. A NaN stays a NaN of the same sign.
constexpr std::uint16_t bfloat16_bits(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float bfloat16_value(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// binary32 to binary16, nearest even (IEEE 754-2019, 4.3.1 and 5.4.2).
constexpr std::uint16_t half_bits(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  auto const sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  std::uint32_t const magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  // 65520 is halfway between the largest half (65504) and 2^16: from there on the result is infinity.
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) {  // 2^-14: a normal half
    std::uint32_t const rebased = magnitude - (112u << 23);
    return static_cast<std::uint16_t>(sign | ((rebased + 0x0fffu + ((rebased >> 13) & 1u)) >> 13));
  }
  if (magnitude <= 0x33000000u)
    return sign;  // up to 2^-25, half of the smallest subnormal: a tie goes to even, which is zero
  std::uint32_t const exponent = magnitude >> 23;
  std::uint32_t const mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  std::uint32_t const shift = 126u - exponent;  // the unit of a subnormal half is 2^-24
  std::uint32_t const kept = mantissa >> shift;
  std::uint32_t const rest = mantissa & ((1u << shift) - 1u);
  std::uint32_t const middle = 1u << (shift - 1u);
  std::uint32_t const up = (rest > middle || (rest == middle && (kept & 1u) != 0u)) ? 1u : 0u;
  return static_cast<std::uint16_t>(sign | (kept + up));
}

constexpr float half_value(std::uint16_t bits) {
  std::uint32_t const sign = std::uint32_t{bits & 0x8000u} << 16;
  std::uint32_t const exponent = (bits >> 10) & 0x1fu;
  std::uint32_t const mantissa = bits & 0x3ffu;
  if (exponent == 31u) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0u) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  float const tiny = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0u ? -tiny : tiny;
}

}  // namespace muster::detail
