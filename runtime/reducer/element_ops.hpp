// SPDX-License-Identifier: Apache-2.0
// Operations on one element of a gradient. The host and gpu_kernels.cu use the same code, so that the bits
// agree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "float16_bits.hpp"

namespace muster::detail {

constexpr void add_element(float* to, const float* from, std::size_t i) { to[i] += from[i]; }
constexpr void divide_element(float* values, float divisor, std::size_t i) { values[i] /= divisor; }
constexpr void narrow_element(std::uint16_t* to, const float* from, std::size_t i) {
  to[i] = bfloat16_bits(from[i]);
}
constexpr void widen_element(float* to, const std::uint16_t* from, std::size_t i) {
  to[i] = bfloat16_value(from[i]);
}
/// Adds element i of `shards` consecutive shards of `length` bfloat16, in float32 and in their order, and
/// divides the sum.
constexpr void sum_shards_element(std::uint16_t* to, const std::uint16_t* from, std::size_t shards,
                                  std::size_t length, float divisor, std::size_t i) {
  float sum = bfloat16_value(from[i]);
  for (std::size_t r = 1; r < shards; ++r) sum += bfloat16_value(from[r * length + i]);
  to[i] = bfloat16_bits(sum / divisor);
}

}  // namespace muster::detail
