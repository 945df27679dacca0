// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/reduce_elements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "communicator/host/float16_convert.hpp"
#include "communicator/host/x86_features.hpp"

namespace muster::detail {
namespace {

// Elements of a block: its intermediate results fit in the L1 cache.
constexpr std::size_t block = 512;

// The type to compute in, so that signed integers wrap around too.
template <typename T>
using Wrapping =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    using U = Wrapping<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct Product {
  template <typename T>
  static T apply(T a, T b) {
    using U = Wrapping<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};

template <typename T>
[[gnu::always_inline]] inline void divide_all(T* values, std::size_t count, int ranks) {
  if constexpr (std::is_floating_point_v<T>) {
    // Faster, and with the same bits: the factor is exact.
    if (std::has_single_bit(static_cast<unsigned>(ranks))) {
      auto const factor = T{1} / static_cast<T>(ranks);
      for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
    } else {
      for (std::size_t i = 0; i < count; ++i) values[i] /= static_cast<T>(ranks);
    }
  } else if constexpr (sizeof(T) < sizeof(int)) {
    // `ranks` may not fit in T.
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(int{values[i]} / ranks);
  } else {
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(values[i] / static_cast<T>(ranks));
  }
}

// How elements are stored, and the type in which they are reduced. load() returns the elements in that type,
// which it may write to the buffer.
template <typename T>
struct Plain {
  using Stored = T;
  using Worked = T;
  static const T* load(const T* from, T*, std::size_t) { return from; }
  static void store(const T* from, T* to, std::size_t count) { std::memcpy(to, from, count * sizeof(T)); }
};
struct Bfloat16 {
  using Stored = std::uint16_t;
  using Worked = float;
  static const float* load(const Stored* from, float* buffer, std::size_t n) {
    bfloat16_to_float(from, buffer, n);
    return buffer;
  }
  static void store(const float* from, Stored* to, std::size_t n) { float_to_bfloat16(from, to, n); }
};
struct Half {
  using Stored = std::uint16_t;
  using Worked = float;
  static const float* load(const Stored* from, float* buffer, std::size_t n) {
    half_to_float(from, buffer, n);
    return buffer;
  }
  static void store(const float* from, Stored* to, std::size_t n) { float_to_half(from, to, n); }
};

template <typename Format>
const typename Format::Stored* operand(std::span<const void* const> operands, std::size_t index) {
  return static_cast<const typename Format::Stored*>(operands[index]);
}

template <typename Op, typename Format, typename Out>
[[gnu::always_inline]] inline void reduce_blocks_loop(void* to, std::span<const void* const> operands,
                                                      std::size_t count, int divisor) {
  using Worked = typename Format::Worked;
  auto* const out = static_cast<typename Out::Stored*>(to);
  std::array<Worked, block> sum, first_buffer, buffer;
  for (std::size_t at = 0; at < count; at += block) {
    std::size_t const length = std::min(block, count - at);
    auto const load = [&](std::size_t index, Worked* converted) {
      return Format::load(operand<Format>(operands, index) + at, converted, length);
    };
    const Worked* left = load(0, first_buffer.data());
    if (operands.size() == 1) std::memcpy(sum.data(), left, length * sizeof(Worked));
    for (std::size_t r = 1; r < operands.size(); ++r) {
      const Worked* const next = load(r, buffer.data());
      for (std::size_t i = 0; i < length; ++i) sum[i] = Op::apply(left[i], next[i]);
      left = sum.data();
    }
    if (divisor > 1) divide_all(sum.data(), length, divisor);
    Out::store(sum.data(), out + at, length);
  }
}

#if defined(__x86_64__)
template <typename Op, typename Format, typename Out>
[[gnu::target("avx2")]] void reduce_blocks_avx2(void* to, std::span<const void* const> operands,
                                                std::size_t count, int divisor) {
  reduce_blocks_loop<Op, Format, Out>(to, operands, count, divisor);
}
#else
template <typename Op, typename Format, typename Out>
void reduce_blocks_avx2(void*, std::span<const void* const>, std::size_t, int) {}
#endif

template <typename Op, typename Format, typename Out>
void reduce_blocks(void* to, std::span<const void* const> operands, std::size_t count, int divisor) {
  if (has_avx2_and_f16c()) return reduce_blocks_avx2<Op, Format, Out>(to, operands, count, divisor);
  reduce_blocks_loop<Op, Format, Out>(to, operands, count, divisor);
}

template <typename Call>
void with_format(DataType type, Call call) {
  switch (type) {
    case DataType::float32:
      return call(Plain<float>{});
    case DataType::float64:
      return call(Plain<double>{});
    case DataType::bfloat16:
      return call(Bfloat16{});
    case DataType::float16:
      return call(Half{});
    case DataType::int8:
      return call(Plain<std::int8_t>{});
    case DataType::uint8:
      return call(Plain<std::uint8_t>{});
    case DataType::int32:
      return call(Plain<std::int32_t>{});
    case DataType::uint32:
      return call(Plain<std::uint32_t>{});
    case DataType::int64:
      return call(Plain<std::int64_t>{});
    case DataType::uint64:
      return call(Plain<std::uint64_t>{});
  }
}

template <typename Op>
void reduce_with(void* to, DataType to_type, std::span<const void* const> operands, std::size_t count,
                 DataType type, int divisor) {
  if (type == DataType::float32 && to_type == DataType::bfloat16)
    return reduce_blocks<Op, Plain<float>, Bfloat16>(to, operands, count, divisor);
  if (type == DataType::float32 && to_type == DataType::float16)
    return reduce_blocks<Op, Plain<float>, Half>(to, operands, count, divisor);
  with_format(type, [&]<typename Format>(Format) {
    if (to_type == type) return reduce_blocks<Op, Format, Format>(to, operands, count, divisor);
    if constexpr (std::is_same_v<typename Format::Worked, float>)
      reduce_blocks<Op, Format, Plain<float>>(to, operands, count, divisor);
  });
}

}  // namespace

DataType partial_type(DataType type) {
  return type == DataType::bfloat16 || type == DataType::float16 ? DataType::float32 : type;
}

void reduce_elements(void* to, std::span<const void* const> operands, std::size_t count, DataType type,
                     Reduction op, int ranks) {
  reduce_elements(to, type, operands, count, type, op, ranks);
}

void reduce_elements(void* to, DataType to_type, std::span<const void* const> operands, std::size_t count,
                     DataType type, Reduction op, int ranks) {
  switch (op) {
    case Reduction::sum:
      return reduce_with<Sum>(to, to_type, operands, count, type, 1);
    case Reduction::average:
      return reduce_with<Sum>(to, to_type, operands, count, type, ranks);
    case Reduction::min:
      return reduce_with<Min>(to, to_type, operands, count, type, 1);
    case Reduction::max:
      return reduce_with<Max>(to, to_type, operands, count, type, 1);
    case Reduction::product:
      return reduce_with<Product>(to, to_type, operands, count, type, 1);
  }
}

}  // namespace muster::detail
