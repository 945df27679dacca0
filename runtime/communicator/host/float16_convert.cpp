// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/float16_convert.hpp"

#include "communicator/host/x86_features.hpp"
#include "float16_bits.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muster::detail {
namespace {

[[gnu::always_inline]] inline void bfloat16_to_float_loop(const std::uint16_t* __restrict from,
                                                          float* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = bfloat16_value(from[i]);
}

// bfloat16_bits() without a branch, so that the compiler vectorizes it.
[[gnu::always_inline]] inline void float_to_bfloat16_loop(const float* __restrict from,
                                                          std::uint16_t* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto const bits = std::bit_cast<std::uint32_t>(from[i]);
    std::uint32_t const rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    std::uint32_t const quiet_nan = (bits >> 16) | 0x0040u;
    std::uint32_t const mask = (bits & 0x7fffffffu) > 0x7f800000u ? ~0u : 0u;
    to[i] = static_cast<std::uint16_t>((rounded & ~mask) | (quiet_nan & mask));
  }
}

#if defined(__x86_64__)

[[gnu::target("avx2")]] void bfloat16_to_float_simd(const std::uint16_t* from, float* to, std::size_t count) {
  bfloat16_to_float_loop(from, to, count);
}

// As bfloat16_bits() of 8 numbers, none of them a NaN.
[[gnu::target("avx2")]] inline __m256i round_to_bfloat16(__m256 numbers) {
  auto const bits = _mm256_castps_si256(numbers);
  auto const odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
}

[[gnu::target("avx2")]] void float_to_bfloat16_simd(const float* from, std::uint16_t* to, std::size_t count) {
  constexpr std::size_t block = 16;
  constexpr std::size_t ahead = 1024;  // numbers; the processor alone fetches too late
  std::size_t i = 0;
  for (; i + block <= count; i += block) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i + ahead), _MM_HINT_T0);
    auto const a = _mm256_loadu_ps(from + i);
    auto const b = _mm256_loadu_ps(from + i + 8);
    if (_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) != 0) {
      float_to_bfloat16_loop(from + i, to + i, block);
      continue;
    }
    auto const packed = _mm256_packus_epi32(round_to_bfloat16(a), round_to_bfloat16(b));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  float_to_bfloat16_loop(from + i, to + i, count - i);
}

[[gnu::target("avx2,f16c")]] std::size_t half_to_float_simd(const std::uint16_t* from, float* to,
                                                            std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    auto const narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(narrow));
  }
  return i;
}

[[gnu::target("avx2,f16c")]] std::size_t float_to_half_simd(const float* from, std::uint16_t* to,
                                                            std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    auto const narrow = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), narrow);
  }
  return i;
}

#else

void bfloat16_to_float_simd(const std::uint16_t*, float*, std::size_t) {}
void float_to_bfloat16_simd(const float*, std::uint16_t*, std::size_t) {}
std::size_t half_to_float_simd(const std::uint16_t*, float*, std::size_t) { return 0; }
std::size_t float_to_half_simd(const float*, std::uint16_t*, std::size_t) { return 0; }

#endif

}  // namespace

void bfloat16_to_float(const std::uint16_t* from, float* to, std::size_t count) {
  if (has_avx2_and_f16c()) return bfloat16_to_float_simd(from, to, count);
  bfloat16_to_float_loop(from, to, count);
}

void float_to_bfloat16(const float* from, std::uint16_t* to, std::size_t count) {
  if (has_avx2_and_f16c()) return float_to_bfloat16_simd(from, to, count);
  float_to_bfloat16_loop(from, to, count);
}

void half_to_float(const std::uint16_t* from, float* to, std::size_t count) {
  std::size_t const done = has_avx2_and_f16c() ? half_to_float_simd(from, to, count) : 0;
  for (std::size_t i = done; i < count; ++i) to[i] = half_value(from[i]);
}

void float_to_half(const float* from, std::uint16_t* to, std::size_t count) {
  std::size_t const done = has_avx2_and_f16c() ? float_to_half_simd(from, to, count) : 0;
  for (std::size_t i = done; i < count; ++i) to[i] = half_bits(from[i]);
}

}  // namespace muster::detail
