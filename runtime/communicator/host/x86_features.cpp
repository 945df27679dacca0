// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/x86_features.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace muster::detail {

#if defined(__x86_64__)
namespace {

// Whether the system saves the registers of AVX (Intel SDM, volume 1, 14.3).
bool saves_avx_registers() noexcept {
  constexpr unsigned sse_and_avx = 6;
  unsigned low = 0;
  unsigned high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & sse_and_avx) == sse_and_avx;
}

bool find_avx2_and_f16c() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned wanted = bit_OSXSAVE | bit_AVX | bit_F16C;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & wanted) != wanted || !saves_avx_registers()) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_AVX2) != 0;
}

}  // namespace

bool has_avx2_and_f16c() noexcept {
  static bool const found = find_avx2_and_f16c();
  return found;
}
#else
bool has_avx2_and_f16c() noexcept { return false; }
#endif

}  // namespace muster::detail
