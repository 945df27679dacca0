// SPDX-License-Identifier: Apache-2.0
// The fake NCCL's arithmetic (fake_nccl.cpp).
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fake_nccl_exchange.hpp"
#include "float16_bits.hpp"

namespace {

// Each partial result is rounded, as in NCCL.
struct Bfloat16 {
  std::uint16_t bits = 0;
  Bfloat16() = default;
  explicit Bfloat16(float value) : bits(muster::detail::bfloat16_bits(value)) {}
  operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(muster::detail::half_bits(value)) {}
  operator float() const { return muster::detail::half_value(bits); }
};

template <typename T>
void combine(T* into, const std::byte* from, std::size_t count, ncclRedOp_t op) {
  for (std::size_t i = 0; i < count; ++i) {
    T other;
    std::memcpy(&other, from + i * sizeof(T), sizeof(T));
    switch (op) {
      case ncclProd:
        into[i] = static_cast<T>(into[i] * other);
        break;
      case ncclMax:
        into[i] = std::max(into[i], other);
        break;
      case ncclMin:
        into[i] = std::min(into[i], other);
        break;
      default:  // sum, average
        into[i] = static_cast<T>(into[i] + other);
    }
  }
}

// Reduces in the order of the ranks: the same result on all of them.
template <typename T>
void reduce_all(const std::vector<const std::byte*>& slots, void* out, std::size_t count, ncclRedOp_t op) {
  std::vector<T> result(count);
  std::memcpy(result.data(), slots.front(), count * sizeof(T));
  for (std::size_t rank = 1; rank < slots.size(); ++rank) combine(result.data(), slots[rank], count, op);
  if (op == ncclAvg)
    for (T& value : result) value = static_cast<T>(value / static_cast<T>(slots.size()));
  std::memcpy(out, result.data(), count * sizeof(T));
}

template <typename T>
std::vector<std::byte> multiply_all(const void* in, std::size_t count, const void* factor) {
  std::vector<T> products(count);
  T scalar;
  std::memcpy(&scalar, factor, sizeof scalar);
  std::memcpy(products.data(), in, count * sizeof(T));
  for (T& value : products) value = static_cast<T>(value * scalar);
  auto const* const bytes = reinterpret_cast<const std::byte*>(products.data());
  return {bytes, bytes + count * sizeof(T)};
}

}  // namespace

std::vector<std::byte> multiply(const void* in, std::size_t count, ncclDataType_t type, const void* factor) {
  switch (type) {
    case ncclFloat64:
      return multiply_all<double>(in, count, factor);
    case ncclBfloat16:
      return multiply_all<Bfloat16>(in, count, factor);
    case ncclFloat16:
      return multiply_all<Half>(in, count, factor);
    default:
      return multiply_all<float>(in, count, factor);
  }
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

ncclResult_t reduce_slots(const std::vector<const std::byte*>& slots, void* out, std::size_t count,
                          ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclFloat32:
      reduce_all<float>(slots, out, count, op);
      return ncclSuccess;
    case ncclFloat64:
      reduce_all<double>(slots, out, count, op);
      return ncclSuccess;
    case ncclBfloat16:
      reduce_all<Bfloat16>(slots, out, count, op);
      return ncclSuccess;
    case ncclFloat16:
      reduce_all<Half>(slots, out, count, op);
      return ncclSuccess;
    case ncclInt8:
      reduce_all<std::int8_t>(slots, out, count, op);
      return ncclSuccess;
    case ncclUint8:
      reduce_all<std::uint8_t>(slots, out, count, op);
      return ncclSuccess;
    case ncclInt32:
      reduce_all<std::int32_t>(slots, out, count, op);
      return ncclSuccess;
    case ncclUint32:
      reduce_all<std::uint32_t>(slots, out, count, op);
      return ncclSuccess;
    case ncclInt64:
      reduce_all<std::int64_t>(slots, out, count, op);
      return ncclSuccess;
    case ncclUint64:
      reduce_all<std::uint64_t>(slots, out, count, op);
      return ncclSuccess;
    default:
      return ncclInvalidArgument;
  }
}
