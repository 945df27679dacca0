// SPDX-License-Identifier: Apache-2.0
// Selects the kernels for this processor.
#include "compute/cpu/kernels.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "compute/cpu/kernel_dispatch.hpp"
#include "muster/error.hpp"

MUSTER_DECLARE_KERNEL_SET(baseline)
#ifdef MUSTER_KERNELS_X86
MUSTER_DECLARE_KERNEL_SET(avx2)
MUSTER_DECLARE_KERNEL_SET(avx512)
namespace muster::compute::cpu::avx512_bf16 {
extern const AttentionKernels<bfloat16> bfloat16_attention;
}
#endif

namespace muster::compute::cpu {
namespace {

// `accurate`: the type of sums and updates.
#define MUSTER_KERNEL_TABLE(set, real, accurate)                                           \
  {                                                                                        \
#set, set::real##_rows, set::real##_attention, set::real##_decode, set::real##_llama,  \
        set::real##_batch_norm, set::real##_pool, set::real##_relu, set::real##_depthwise, \
        set::accurate##_matmul, set::accurate##_update                                     \
  }

template <typename Real>
struct Sets;

template <>
struct Sets<float> {
  Kernels<float> baseline = MUSTER_KERNEL_TABLE(baseline, float, float);
#ifdef MUSTER_KERNELS_X86
  Kernels<float> avx2 = MUSTER_KERNEL_TABLE(avx2, float, float);
  Kernels<float> avx512 = MUSTER_KERNEL_TABLE(avx512, float, float);
#endif
};

template <>
struct Sets<double> {
  Kernels<double> baseline = MUSTER_KERNEL_TABLE(baseline, double, double);
#ifdef MUSTER_KERNELS_X86
  Kernels<double> avx2 = MUSTER_KERNEL_TABLE(avx2, double, double);
  Kernels<double> avx512 = MUSTER_KERNEL_TABLE(avx512, double, double);
#endif
};

template <>
struct Sets<bfloat16> {
  Kernels<bfloat16> baseline = MUSTER_KERNEL_TABLE(baseline, bfloat16, float);
#ifdef MUSTER_KERNELS_X86
  Kernels<bfloat16> avx2 = MUSTER_KERNEL_TABLE(avx2, bfloat16, float);
  Kernels<bfloat16> avx512 = MUSTER_KERNEL_TABLE(avx512, bfloat16, float);
  Kernels<bfloat16> avx512_bf16 = [](Kernels<bfloat16> set) {
    set.instruction_set = "avx512_bf16";
    set.attention = avx512_bf16::bfloat16_attention;
    return set;
  }(avx512);
#endif
};

}  // namespace

template <typename Real>
const Kernels<Real>* find_kernels(const char* instruction_set) {
  static const Sets<Real> sets;
#if defined(MUSTER_KERNELS_X86) && !defined(__clang_analyzer__)  // clang-tidy 14 does not know these names
  // The sets are compiled for the levels of the x86-64 psABI: v3 has AVX2 and FMA, v4 has AVX-512 F, BW, CD,
  // DQ and VL.
  if constexpr (std::is_same_v<Real, bfloat16>) {
    if (std::strcmp(instruction_set, "avx512_bf16") == 0)
      return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16") ? &sets.avx512_bf16
                                                                                         : nullptr;
  }
  if (std::strcmp(instruction_set, "avx512") == 0)
    return __builtin_cpu_supports("x86-64-v4") ? &sets.avx512 : nullptr;
  if (std::strcmp(instruction_set, "avx2") == 0)
    return __builtin_cpu_supports("x86-64-v3") ? &sets.avx2 : nullptr;
#endif
  return std::strcmp(instruction_set, "baseline") == 0 ? &sets.baseline : nullptr;
}

template <typename Real>
const Kernels<Real>& kernels() {
  static const Kernels<Real>* const best = [] {
    if (const char* requested = std::getenv("MUSTER_ISA"); requested != nullptr && *requested != '\0') {
      const std::string_view name = requested;
      if (name != "baseline" && name != "avx2" && name != "avx512" && name != "avx512_bf16")
        throw Error(ErrorCode::usage,
                    fmt::format("MUSTER_ISA is '{}': must be baseline, avx2, avx512 or avx512_bf16", name));
      if (const auto* set = find_kernels<Real>(requested)) return set;
    }
    for (const char* name : {"avx512_bf16", "avx512", "avx2"}) {
      if (const auto* set = find_kernels<Real>(name)) return set;
    }
    return find_kernels<Real>("baseline");
  }();
  return *best;
}

template const Kernels<float>& kernels<float>();
template const Kernels<double>& kernels<double>();
template const Kernels<bfloat16>& kernels<bfloat16>();
template const Kernels<float>* find_kernels<float>(const char*);
template const Kernels<double>* find_kernels<double>(const char*);
template const Kernels<bfloat16>* find_kernels<bfloat16>(const char*);

}  // namespace muster::compute::cpu
