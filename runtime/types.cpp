// SPDX-License-Identifier: Apache-2.0
#include "muster/types.hpp"

#include "float16_bits.hpp"

namespace muster {

bfloat16::bfloat16(float value) : bits(detail::bfloat16_bits(value)) {}
half::half(float value) : bits(detail::half_bits(value)) {}
half::operator float() const { return detail::half_value(bits); }

std::size_t size_of(DataType type) noexcept {
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
      return 1;
    case DataType::bfloat16:
    case DataType::float16:
      return 2;
    case DataType::float32:
    case DataType::int32:
    case DataType::uint32:
      return 4;
    case DataType::float64:
    case DataType::int64:
    case DataType::uint64:
      return 8;
  }
  return 0;
}

const char* name_of(DataType type) noexcept {
  switch (type) {
    case DataType::float32:
      return "float32";
    case DataType::float64:
      return "float64";
    case DataType::bfloat16:
      return "bfloat16";
    case DataType::float16:
      return "float16";
    case DataType::int8:
      return "int8";
    case DataType::uint8:
      return "uint8";
    case DataType::int32:
      return "int32";
    case DataType::uint32:
      return "uint32";
    case DataType::int64:
      return "int64";
    case DataType::uint64:
      return "uint64";
  }
  return "unknown";
}

}  // namespace muster
