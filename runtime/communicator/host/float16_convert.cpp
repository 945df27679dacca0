// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/float16_convert.hpp"

#include "float16_bits.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace muster::detail {
namespace {

[[gnu::always_inline]] inline void widen_bfloat16_loop(const std::uint16_t* __restrict from,
                                                       float* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = bfloat16_value(from[i]);
}

// bfloat16_bits() without a branch, so that it becomes vector instructions.
[[gnu::always_inline]] inline void narrow_bfloat16_loop(const float* __restrict from,
                                                        std::uint16_t* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto const bits = std::bit_cast<std::uint32_t>(from[i]);
    std::uint32_t const rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    std::uint32_t const not_a_number = (bits >> 16) | 0x0040u;
    std::uint32_t const mask = (bits & 0x7fffffffu) > 0x7f800000u ? ~0u : 0u;
    to[i] = static_cast<std::uint16_t>((rounded & ~mask) | (not_a_number & mask));
  }
}

#if defined(__x86_64__)

// clang 14 does not know this one's name.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool const has_wide = __builtin_cpu_supports("avx2") != 0 && has_f16c();

[[gnu::target("avx2")]] void widen_bfloat16_wide(const std::uint16_t* from, float* to, std::size_t count) {
  widen_bfloat16_loop(from, to, count);
}

[[gnu::target("avx2")]] void narrow_bfloat16_wide(const float* from, std::uint16_t* to, std::size_t count) {
  narrow_bfloat16_loop(from, to, count);
}

[[gnu::target("avx2,f16c")]] std::size_t widen_half_wide(const std::uint16_t* from, float* to,
                                                         std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    auto const narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(narrow));
  }
  return i;
}

[[gnu::target("avx2,f16c")]] std::size_t narrow_half_wide(const float* from, std::uint16_t* to,
                                                          std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    auto const narrow = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), narrow);
  }
  return i;
}

#else

constexpr bool has_wide = false;
void widen_bfloat16_wide(const std::uint16_t*, float*, std::size_t) {}
void narrow_bfloat16_wide(const float*, std::uint16_t*, std::size_t) {}
std::size_t widen_half_wide(const std::uint16_t*, float*, std::size_t) { return 0; }
std::size_t narrow_half_wide(const float*, std::uint16_t*, std::size_t) { return 0; }

#endif

}  // namespace

void widen_bfloat16(const std::uint16_t* from, float* to, std::size_t count) {
  if (has_wide) return widen_bfloat16_wide(from, to, count);
  widen_bfloat16_loop(from, to, count);
}

void narrow_bfloat16(const float* from, std::uint16_t* to, std::size_t count) {
  if (has_wide) return narrow_bfloat16_wide(from, to, count);
  narrow_bfloat16_loop(from, to, count);
}

void widen_half(const std::uint16_t* from, float* to, std::size_t count) {
  std::size_t const done = has_wide ? widen_half_wide(from, to, count) : 0;
  for (std::size_t i = done; i < count; ++i) to[i] = half_value(from[i]);
}

void narrow_half(const float* from, std::uint16_t* to, std::size_t count) {
  std::size_t const done = has_wide ? narrow_half_wide(from, to, count) : 0;
  for (std::size_t i = done; i < count; ++i) to[i] = half_bits(from[i]);
}

}  // namespace muster::detail
