// SPDX-License-Identifier: Apache-2.0
#include "weights/elements.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "muster/types.hpp"

namespace muster::weights {
namespace {

float widen_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// binary16 to binary32 (IEEE 754-2019, 3.4).
float widen_float16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, exponent = bits >> 10 & 0x1fu,
                      mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -subnormal : subnormal;
}

}  // namespace

std::optional<ElementType> find_element_type(const std::string& name) {
  if (name == "F32") return ElementType::float32;
  if (name == "BF16") return ElementType::bfloat16;
  if (name == "F16") return ElementType::float16;
  return std::nullopt;
}

const char* name_of(ElementType type) {
  return type == ElementType::float32 ? "F32" : type == ElementType::bfloat16 ? "BF16" : "F16";
}

std::vector<char> narrow_elements(ElementType type, std::span<const float> elements) {
  std::vector<char> bytes(elements.size() * bytes_of(type));
  if (type == ElementType::float32) {
    std::memcpy(bytes.data(), elements.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const bfloat16 rounded(elements[i]);
    std::memcpy(bytes.data() + 2 * i, &rounded.bits, sizeof rounded.bits);
  }
  return bytes;
}

void widen_elements(ElementType type, const void* from, std::size_t count, float* to) {
  if (type == ElementType::float32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(from) + 2 * i, sizeof bits);
    to[i] = type == ElementType::bfloat16 ? widen_bfloat16(bits) : widen_float16(bits);
  }
}

void transpose(const float* from, std::int64_t rows, std::int64_t columns, float* to) {
  constexpr std::int64_t block = 32;  // two blocks fit the level-1 cache
  for (std::int64_t top = 0; top < rows; top += block) {
    for (std::int64_t left = 0; left < columns; left += block) {
      for (std::int64_t row = top; row < std::min(top + block, rows); ++row) {
        for (std::int64_t column = left; column < std::min(left + block, columns); ++column)
          to[column * rows + row] = from[row * columns + column];
      }
    }
  }
}

}  // namespace muster::weights
