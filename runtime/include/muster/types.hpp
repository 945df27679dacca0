// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "muster/export.hpp"

struct CUstream_st;

namespace muster {

/// A CUDA stream (the same type as cudaStream_t) without including CUDA's headers. Null is the default
/// stream.
using Stream = CUstream_st*;

/// bfloat16: the upper 16 bits of an IEEE-754 binary32. Conversion from float rounds to nearest even.
struct MUSTER_EXPORT bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

/// IEEE-754 binary16. Conversion from float rounds to nearest even.
struct MUSTER_EXPORT half {
  std::uint16_t bits = 0;
  half() = default;
  explicit half(float value);
  explicit operator float() const;
};

enum class DataType { float32, float64, bfloat16, float16, int8, uint8, int32, uint32, int64, uint64 };

/// average divides the sum by the communicator's size; for integers it rounds towards zero. On NCCL, 16-bit
/// floats are multiplied by 1/size before they are added. Integer sums and products wrap around in the
/// element type.
enum class Reduction { sum, average, min, max, product };

/// How an operation reduces: one of Reduction, or premul_sum().
struct ReduceOp {
  // NOLINTNEXTLINE(google-explicit-constructor): Reduction::max is an argument as it is
  constexpr ReduceOp(Reduction its_reduction = Reduction::sum) noexcept : reduction(its_reduction) {}

  Reduction reduction;
  std::optional<double> factor;  ///< of a premul_sum
};

/// A sum of each rank's elements times that rank's `factor`, as ncclRedOpCreatePreMulSum has it. Ranks may
/// have different factors. For floats only. The factor is rounded to the element type, and so is each product
/// before it is added; the additions are those of Reduction::sum.
constexpr ReduceOp premul_sum(double factor) noexcept {
  ReduceOp op(Reduction::sum);
  op.factor = factor;
  return op;
}

/// Size of one element in bytes.
MUSTER_EXPORT std::size_t size_of(DataType type) noexcept;
/// The enumerator's name, such as "float32".
MUSTER_EXPORT const char* name_of(DataType type) noexcept;

/// DataTypeOf<T>::value: the DataType of a C++ type.
template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<float> : std::integral_constant<DataType, DataType::float32> {};
template <>
struct DataTypeOf<double> : std::integral_constant<DataType, DataType::float64> {};
template <>
struct DataTypeOf<bfloat16> : std::integral_constant<DataType, DataType::bfloat16> {};
template <>
struct DataTypeOf<half> : std::integral_constant<DataType, DataType::float16> {};
template <>
struct DataTypeOf<std::int8_t> : std::integral_constant<DataType, DataType::int8> {};
template <>
struct DataTypeOf<std::uint8_t> : std::integral_constant<DataType, DataType::uint8> {};
template <>
struct DataTypeOf<std::int32_t> : std::integral_constant<DataType, DataType::int32> {};
template <>
struct DataTypeOf<std::uint32_t> : std::integral_constant<DataType, DataType::uint32> {};
template <>
struct DataTypeOf<std::int64_t> : std::integral_constant<DataType, DataType::int64> {};
template <>
struct DataTypeOf<std::uint64_t> : std::integral_constant<DataType, DataType::uint64> {};
// std::int64_t and std::uint64_t are long and unsigned long.
template <>
struct DataTypeOf<long long> : std::integral_constant<DataType, DataType::int64> {};
template <>
struct DataTypeOf<unsigned long long> : std::integral_constant<DataType, DataType::uint64> {};

/// An element type of communicators.
template <typename T>
concept Element = requires {
  { DataTypeOf<T>::value } -> std::convertible_to<DataType>;
};

}  // namespace muster
