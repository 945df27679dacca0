// SPDX-License-Identifier: Apache-2.0
// Runs a kernel three times on the fake GPU: its source; its PTX without fused multiply-adds, which must give
// the source's bits; and its PTX as shipped. The results of the last one remain, for the test's own checks.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "compute/cuda/kernels/mma.cuh"
#include "ptx_kernels.hpp"

namespace fake_gpu {

template <typename Value>
Value to_parameter(Value argument) {
  return argument;
}
template <typename Value>
Value* to_parameter(std::span<Value> argument) {
  return argument.data();
}

/// A copy of what a kernel writes; of other arguments, nothing.
template <typename Value>
std::vector<Value> copy_of(std::span<Value> output) {
  return {output.begin(), output.end()};
}
template <typename Argument>
std::nullptr_t copy_of(Argument) {
  return nullptr;
}
template <typename Value>
void restore(std::span<Value> output, const std::vector<Value>& copy) {
  std::copy(copy.begin(), copy.end(), output.begin());
}
template <typename Argument>
void restore(Argument, std::nullptr_t) {}

inline bool is_nan(float value) { return value != value; }
inline bool is_nan(double value) { return value != value; }
inline bool is_nan(muster::compute::cuda::Bf16 value) { return is_nan(muster::compute::cuda::widen(value)); }
template <typename Value>
bool is_nan(const Value&) {
  return false;
}

/// How many representable numbers lie between them; for other types than float, 0 or the largest.
inline std::int64_t units_apart(float a, float b) {
  const auto order = [](float value) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    return std::int64_t{bits < 0 ? std::numeric_limits<std::int32_t>::min() - std::int64_t{bits} : bits};
  };
  return std::abs(order(a) - order(b));
}
template <typename Value>
std::int64_t units_apart(const Value& a, const Value& b) {
  return std::memcmp(&a, &b, sizeof(Value)) == 0 ? 0 : std::numeric_limits<std::int64_t>::max();
}

/// The number of elements that are more than `units` apart. NaNs are alike.
template <typename Value>
std::size_t count_different(std::span<Value> found, const std::vector<Value>& expected, std::int64_t units) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (is_nan(found[i]) && is_nan(expected[i])) continue;
    if (is_nan(found[i]) != is_nan(expected[i]) || units_apart(found[i], expected[i]) > units) ++count;
  }
  return count;
}
template <typename Argument>
std::size_t count_different(Argument, std::nullptr_t, std::int64_t) {
  return 0;
}

inline const PtxKernel& find_ptx(const std::vector<PtxKernel>& kernels, void (*source)()) {
  for (const auto* table : {&kernels, &reducer_ptx}) {
    for (const PtxKernel& kernel : *table) {
      if (kernel.source == source) return kernel;
    }
  }
  throw std::logic_error("a kernel has no PTX");
}

template <typename... Parameters, typename... Arguments>
void run_with_ptx(void (*kernel)(Parameters...), const Launch& how, Arguments... arguments) {
  const auto before = std::tuple(copy_of(arguments)...);
  const auto restore_all = [&] {
    std::apply([&](const auto&... copies) { (restore(arguments, copies), ...); }, before);
  };
  std::tuple<Parameters...> parameters(to_parameter(arguments)...);
  const auto pointers =
      std::apply([](auto&... each) { return std::array<void*, sizeof...(each)>{&each...}; }, parameters);
  const auto run_ptx = [&](const std::vector<PtxKernel>& kernels) {
    const PtxKernel& ptx = find_ptx(kernels, reinterpret_cast<void (*)()>(kernel));
    launch(how, [&] { ptx.run(pointers.data()); });
    return ptx.has_fused ? 1 : 0;
  };

  launch(how, [&] { std::apply(kernel, parameters); });
  const auto expected = std::tuple(copy_of(arguments)...);
  restore_all();
  const std::int64_t units = run_ptx(unfused_ptx);
  const std::size_t different = std::apply(
      [&](const auto&... copies) {
        return (std::size_t{0} + ... + count_different(arguments, copies, units));
      },
      expected);
  CHECK(different == 0);
  restore_all();
  run_ptx(shipped_ptx);
}

}  // namespace fake_gpu
