// SPDX-License-Identifier: Apache-2.0
// PTX instructions for the fake GPU, each a function of its name (see ptx_to_cpp.py). Registers hold bits; an
// instruction's types say how it reads them. Source: PTX ISA 8.5. What the sources' emulation rounds or
// approximates in its own way (mma, ex2, bfloat16), these do with its functions.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "emulated_gpu.hpp"

namespace fake_gpu::ptx {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using b16 = u16;
using b32 = u32;
using b64 = u64;
using f32 = float;
using f64 = double;
using pred = bool;
struct bf16;

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 8, u64, std::conditional_t<sizeof(T) == 4, u32, u16>>;
/// Integers wrap around.
template <typename T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, Bits<T>, T>;

template <typename T, typename Register>
T get(Register bits) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<T>(static_cast<Bits<T>>(bits));
  } else {
    return static_cast<T>(bits);
  }
}
template <typename T, typename Register>
void set(Register& to, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    to = std::bit_cast<Bits<T>>(value);
  } else {
    to = static_cast<Register>(value);
  }
}

/// Ends the test: an instruction's operand is one that a GPU, or the fake GPU, does not accept.
inline void require(bool accepted, const char* what) {
  if (accepted) return;
  std::fprintf(stderr, "PTX: %s\n", what);
  std::abort();
}

// Arithmetic. `mul` and `add` without .rn are those that the driver's compiler may fuse.

// Of a number and a NaN, the number.
template <typename T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
  return std::min(a, b);
}
template <typename T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
  return std::max(a, b);
}

#define MUSTER_PTX_BINARY(name, Operand, result)            \
  template <typename T, typename D, typename A, typename B> \
  void name(D& to, A first, B second) {                     \
    const auto a = get<Operand>(first);                     \
    const auto b = get<Operand>(second);                    \
    set(to, static_cast<Operand>(result));                  \
  }
MUSTER_PTX_BINARY(add, Wrapping<T>, a + b)
MUSTER_PTX_BINARY(sub, Wrapping<T>, a - b)
MUSTER_PTX_BINARY(mul, Wrapping<T>, a* b)
MUSTER_PTX_BINARY(add_rn, T, a + b)
MUSTER_PTX_BINARY(sub_rn, T, a - b)
MUSTER_PTX_BINARY(mul_rn, T, a* b)
MUSTER_PTX_BINARY(mul_lo, Wrapping<T>, u64{a} * u64{b})
MUSTER_PTX_BINARY(div_, T, a / b)
MUSTER_PTX_BINARY(div_rn, T, a / b)
MUSTER_PTX_BINARY(rem, T, a % b)
MUSTER_PTX_BINARY(and_, T, a& b)
MUSTER_PTX_BINARY(or_, T, a | b)
MUSTER_PTX_BINARY(xor_, T, a ^ b)
MUSTER_PTX_BINARY(min, T, smaller(a, b))
MUSTER_PTX_BINARY(max, T, larger(a, b))
#undef MUSTER_PTX_BINARY

template <typename T, typename D, typename A>
void neg(D& to, A value) {
  set(to, static_cast<Wrapping<T>>(-get<Wrapping<T>>(value)));
}
template <typename T, typename D, typename A>
void not_(D& to, A value) {
  if constexpr (std::is_same_v<T, bool>) {
    to = !value;
  } else {
    set(to, static_cast<T>(~get<T>(value)));
  }
}
template <typename T, typename D, typename A>
void abs(D& to, A value) {
  static_assert(std::is_floating_point_v<T>);
  set(to, std::fabs(get<T>(value)));
}
template <typename T, typename D, typename A>
void sqrt_rn(D& to, A value) {
  set(to, std::sqrt(get<T>(value)));
}
template <typename T, typename D, typename A>
void rcp_rn(D& to, A value) {
  set(to, T{1} / get<T>(value));
}
template <typename T, typename D, typename A>
void ex2_approx_ftz(D& to, A value) {
  set(to, muster::compute::cuda::power_of_two(get<T>(value)));
}
template <typename T, typename D, typename A, typename B, typename C>
void fma_rn(D& to, A a, B b, C c) {
  set(to, std::fma(get<T>(a), get<T>(b), get<T>(c)));
}
template <typename T, typename D, typename A, typename B, typename C>
void mad_lo(D& to, A a, B b, C c) {
  set(to, static_cast<Bits<T>>(u64{get<Bits<T>>(a)} * get<Bits<T>>(b) + get<Bits<T>>(c)));
}
template <typename T, typename D, typename A, typename B>
void mul_wide(D& to, A a, B b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, s64, u64>;
  set(to, Wide{get<T>(a)} * Wide{get<T>(b)});
}

/// The upper half of a product without signs.
template <typename T, typename D, typename A, typename B>
void mul_hi(D& to, A a, B b) {
  static_assert(std::is_unsigned_v<T>);
  __extension__ using Wide = unsigned __int128;
  set(to, static_cast<T>(Wide{get<T>(a)} * get<T>(b) >> 8 * sizeof(T)));
}

// Bits. A shift by the width or more gives zeros, or copies of the sign.

template <typename T, typename D, typename A>
void shl(D& to, A value, u32 count) {
  set(to, count >= 8 * sizeof(T) ? T{0} : static_cast<T>(get<T>(value) << count));
}
template <typename T, typename D, typename A>
void shr(D& to, A value, u32 count) {
  const T from = get<T>(value);
  const u32 most = 8 * sizeof(T) - 1;
  set(to, count <= most ? static_cast<T>(from >> count) : static_cast<T>(from < 0 ? -1 : 0));
}
template <typename T, typename D>
void bfi(D& to, u32 field, u32 base, u32 position, u32 length) {
  static_assert(sizeof(T) == 4);
  const u32 mask = (length >= 32 ? ~0u : (1u << length) - 1) << position;
  to = (base & ~mask) | (field << position & mask);
}
template <typename T, typename D>
void prmt(D& to, u32 low, u32 high, u32 selectors) {
  const u64 bytes = u64{high} << 32 | low;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 selector = selectors >> 4 * i & 0xf;
    u32 byte = static_cast<u32>(bytes >> 8 * (selector & 7)) & 0xff;
    if (selector & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  to = result;
}

// Conversions and moves.

template <typename To, typename From, typename D, typename A>
void cvt(D& to, A value) {
  set(to, static_cast<To>(get<From>(value)));
}
template <typename To, typename From, typename D, typename A>
void cvt_rn(D& to, A value) {
  cvt<To, From>(to, value);
}
template <typename T, typename D>
void cvt_rn_bf16x2(D& to, u32 high, u32 low) {
  to = muster::compute::cuda::narrow_pair(get<T>(low), get<T>(high));
}
template <typename T, typename D, typename A>
void mov(D& to, A value) {
  set(to, get<T>(value));
}
template <typename T>
void mov(std::tuple<u32&, u32&> to, u64 value) {
  std::get<0>(to) = static_cast<u32>(value);
  std::get<1>(to) = static_cast<u32>(value >> 32);
}
template <typename T>
void mov(u64& to, std::tuple<u32&, u32&> from) {
  to = u64{std::get<1>(from)} << 32 | std::get<0>(from);
}
template <typename T>
void mov(u32& to, std::tuple<u16&, u16&> from) {
  to = u32{std::get<1>(from)} << 16 | std::get<0>(from);
}
template <typename T, typename D, typename A, typename B>
void selp(D& to, A if_true, B if_false, bool condition) {
  set(to, condition ? get<T>(if_true) : get<T>(if_false));
}

// Comparisons; those with a final u are true also for NaN.

#define MUSTER_PTX_COMPARISON(name, result)           \
  template <typename T, typename A, typename B>       \
  void setp_##name(bool& to, A first, B second) {     \
    const auto a = get<T>(first), b = get<T>(second); \
    to = result;                                      \
  }
MUSTER_PTX_COMPARISON(eq, a == b)
MUSTER_PTX_COMPARISON(ne, a<b || a> b)
MUSTER_PTX_COMPARISON(lt, a < b)
MUSTER_PTX_COMPARISON(le, a <= b)
MUSTER_PTX_COMPARISON(gt, a > b)
MUSTER_PTX_COMPARISON(ge, a >= b)
MUSTER_PTX_COMPARISON(equ, !(a < b || a > b))
MUSTER_PTX_COMPARISON(neu, !(a == b))
MUSTER_PTX_COMPARISON(ltu, !(a >= b))
MUSTER_PTX_COMPARISON(leu, !(a > b))
MUSTER_PTX_COMPARISON(gtu, !(a <= b))
MUSTER_PTX_COMPARISON(geu, !(a < b))
#undef MUSTER_PTX_COMPARISON

// Memory. A GPU ends a kernel that accesses an address that is no multiple of the access's size.

inline unsigned char* parameter(void* argument, int offset) {
  return static_cast<unsigned char*>(argument) + offset;
}
inline unsigned char* global(u64 address) { return reinterpret_cast<unsigned char*>(address); }
inline unsigned char* shared(u32 address) { return shared_memory() + address; }
inline bool is_aligned(const unsigned char* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

template <typename T, typename... Registers>
void load(const unsigned char* from, Registers&... to) {
  require(is_aligned(from, sizeof(T) * sizeof...(to)), "a load from a misaligned address");
  T values[sizeof...(to)];
  std::memcpy(values, from, sizeof values);
  std::size_t i = 0;
  (set(to, values[i++]), ...);
}
template <typename T, typename... Registers>
void store(unsigned char* to, Registers... from) {
  require(is_aligned(to, sizeof(T) * sizeof...(from)), "a store to a misaligned address");
  const T values[] = {get<T>(from)...};
  std::memcpy(to, values, sizeof values);
}

template <typename T, typename D>
void ld_param(D& to, const unsigned char* from) {
  load<T>(from, to);
}
#define MUSTER_PTX_VECTORS(name, Address, space)                            \
  template <typename T, typename... D>                                      \
  void ld_##space##name(std::tuple<D&...> to, Address from) {               \
    std::apply([&](auto&... each) { load<T>(space(from), each...); }, to);  \
  }                                                                         \
  template <typename T, typename... D>                                      \
  void st_##space##name(Address to, std::tuple<D&...> from) {               \
    std::apply([&](auto&... each) { store<T>(space(to), each...); }, from); \
  }
MUSTER_PTX_VECTORS(_v2, u64, global)
MUSTER_PTX_VECTORS(_v4, u64, global)
MUSTER_PTX_VECTORS(_v2, u32, shared)
MUSTER_PTX_VECTORS(_v4, u32, shared)
#undef MUSTER_PTX_VECTORS
template <typename T, typename D>
void ld_global(D& to, u64 from) {
  load<T>(global(from), to);
}
template <typename T, typename D>
void st_global(u64 to, D from) {
  store<T>(global(to), from);
}
template <typename T, typename D>
void ld_shared(D& to, u32 from) {
  load<T>(shared(from), to);
}
template <typename T, typename D>
void st_shared(u32 to, D from) {
  store<T>(shared(to), from);
}
template <typename T>
void cvta_to_global(u64& to, u64 address) {
  to = address;
}

inline void cp_async_cg_shared_global(u32 to, u64 from, u32 size, u32 bytes) {
  require(size == 16 && (bytes == 0 || bytes == 16), "cp.async of some of 16 bytes");
  require(is_aligned(shared(to), 16) && is_aligned(global(from), 16), "cp.async with a misaligned address");
  enqueue_copy(shared(to), global(from), bytes != 0);
}
inline void cp_async_commit_group() { commit_copies(); }
inline void cp_async_wait_group(std::size_t groups) { wait_for_copies(groups); }

// Threads together: all of a block, or all of a warp.

constexpr u32 all_lanes = 0xffffffff;
inline void bar_sync(int barrier) {
  require(barrier == 0, "bar.sync with another barrier than 0");
  sync_block();
}
inline void bar_warp_sync(u32 lanes) {
  require(lanes == all_lanes, "bar.warp.sync of some lanes");
  sync_warp();
}
/// `clamp` can cut the warp in parts.
inline u32 shuffle(u32 value, u32 lane, u32 clamp, u32 lanes) {
  require(lanes == all_lanes && clamp == 31 && lane < 32, "shfl.sync of some lanes");
  return exchange(value, static_cast<int>(lane));
}
template <typename T, typename D>
void shfl_sync_bfly(D& to, u32 value, u32 distance, u32 clamp, u32 lanes) {
  to = shuffle(value, threadIdx.x % 32 ^ distance, clamp, lanes);
}
template <typename T, typename D>
void shfl_sync_idx(D& to, u32 value, u32 lane, u32 clamp, u32 lanes) {
  to = shuffle(value, lane, clamp, lanes);
}

using Four = std::tuple<u32&, u32&, u32&, u32&>;
inline void set_four(Four to, const u32 (&from)[4]) { to = std::tie(from[0], from[1], from[2], from[3]); }
inline muster::compute::cuda::Bf16x8* matrix_row(u32 address) {
  require(is_aligned(shared(address), 16), "ldmatrix from a misaligned address");
  return reinterpret_cast<muster::compute::cuda::Bf16x8*>(shared(address));
}
template <typename T>
void ldmatrix_sync_aligned_m8n8_x4_shared(Four to, u32 row) {
  u32 result[4];
  muster::compute::cuda::load_matrices(result, matrix_row(row));
  set_four(to, result);
}
template <typename T>
void ldmatrix_sync_aligned_m8n8_x4_trans_shared(Four to, u32 row) {
  u32 result[4];
  muster::compute::cuda::load_matrices_transposed(result, matrix_row(row));
  set_four(to, result);
}
template <typename To, typename A, typename B, typename C>
void mma_sync_aligned_m16n8k16_row_col(Four to, Four a, std::tuple<u32&, u32&> b, Four c) {
  static_assert(std::is_same_v<To, f32> && std::is_same_v<A, bf16> && std::is_same_v<B, bf16> &&
                std::is_same_v<C, f32>);
  const u32 left[] = {std::get<0>(a), std::get<1>(a), std::get<2>(a), std::get<3>(a)};
  float sums[] = {get<f32>(std::get<0>(c)), get<f32>(std::get<1>(c)), get<f32>(std::get<2>(c)),
                  get<f32>(std::get<3>(c))};
  muster::compute::cuda::multiply_add(sums, left, std::get<0>(b), std::get<1>(b));
  set_four(to, {std::bit_cast<u32>(sums[0]), std::bit_cast<u32>(sums[1]), std::bit_cast<u32>(sums[2]),
                std::bit_cast<u32>(sums[3])});
}

}  // namespace fake_gpu::ptx
