// SPDX-License-Identifier: Apache-2.0
#include "muster/types.hpp"

#include <array>

#include "float16_bits.hpp"

namespace muster {

bfloat16::bfloat16(float value) : bits(detail::bfloat16_bits(value)) {}
half::half(float value) : bits(detail::half_bits(value)) {}
half::operator float() const { return detail::half_value(bits); }

namespace {

struct TypeFacts {
  const char* name;
  std::size_t size;
};

// In the order of DataType.
constexpr std::array<TypeFacts, 10> types{{{"float32", 4},
                                           {"float64", 8},
                                           {"bfloat16", 2},
                                           {"float16", 2},
                                           {"int8", 1},
                                           {"uint8", 1},
                                           {"int32", 4},
                                           {"uint32", 4},
                                           {"int64", 8},
                                           {"uint64", 8}}};

}  // namespace

std::size_t size_of(DataType type) noexcept {
  auto const index = static_cast<std::size_t>(type);
  return index < types.size() ? types[index].size : 0;
}

const char* name_of(DataType type) noexcept {
  auto const index = static_cast<std::size_t>(type);
  return index < types.size() ? types[index].name : "unknown";
}

}  // namespace muster
