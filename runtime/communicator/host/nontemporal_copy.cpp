// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/nontemporal_copy.hpp"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace muster::detail {

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
#if defined(__SSE2__)
  constexpr std::size_t line = 64;
  for (; at + line <= bytes; at += line) {
    auto const* const source = reinterpret_cast<const __m128i*>(from + at);
    auto* const target = reinterpret_cast<__m128i*>(to + at);
    __m128i const a = _mm_loadu_si128(source);
    __m128i const b = _mm_loadu_si128(source + 1);
    __m128i const c = _mm_loadu_si128(source + 2);
    __m128i const d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
#endif
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
}

void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace muster::detail
