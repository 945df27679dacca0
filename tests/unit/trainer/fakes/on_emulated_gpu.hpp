// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "compute/cpu/cpu_compute.hpp"
#include "compute/cuda/kernels/mma.cuh"
#include "muster/philox.hpp"
#include "trainer/compute/cuda/ptx/run_with_ptx.hpp"

namespace fake_gpu {

using muster::compute::cuda::Bf16;

/// Half of the distance between 1 and the next bfloat16: the maximum relative error of one rounding.
constexpr double half_unit = 0x1p-8;
/// Shared memory for a sum over a block.
constexpr std::size_t warps_bytes = 32 * sizeof(double);

/// What run() takes for a kernel's parameter: a span for an array that the kernel writes.
template <typename Parameter>
struct ArgumentFor {
  using Type = Parameter;
};
template <typename Value>
requires(!std::is_const_v<Value>) struct ArgumentFor<Value*> {
  using Type = std::span<Value>;
};

template <typename... Parameters>
void run(void (*kernel)(Parameters...), const Launch& how,
         std::type_identity_t<typename ArgumentFor<Parameters>::Type>... arguments) {
  if constexpr (runs_ptx) {
    run_with_ptx(kernel, how, arguments...);
  } else {
    launch(how, [&] { kernel(to_parameter(arguments)...); });
  }
}

inline Bf16 rounded(double value) { return muster::compute::cuda::narrow(static_cast<float>(value)); }

/// Normally distributed numbers, different for each stream.
inline std::vector<Bf16> random_bf16(std::size_t count, std::uint64_t stream, double spread = 1) {
  std::vector<Bf16> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = rounded(spread * muster::normal(3, stream, i));
  return out;
}
inline std::vector<float> random_floats(std::size_t count, std::uint64_t stream, double spread = 1) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(spread * muster::normal(3, stream, i));
  return out;
}

inline double exact(Bf16 value) { return static_cast<double>(muster::compute::cuda::widen(value)); }
inline double exact(float value) { return static_cast<double>(value); }
template <typename Number>
std::vector<double> exact(const std::vector<Number>& values) {
  std::vector<double> out;
  for (const Number value : values) out.push_back(exact(value));
  return out;
}

/// The largest |found - expected| / bound.
template <typename Number>
double worst_ratio(const std::vector<Number>& found, const std::vector<double>& expected,
                   const std::vector<double>& bound) {
  double most = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double ratio = std::abs(exact(found[i]) - expected[i]) / bound[i];
    most = ratio <= most ? most : ratio;  // NaN counts
  }
  return most;
}

/// scale * |value| + least for each value.
inline std::vector<double> bounds(const std::vector<double>& values, double scale, double least) {
  std::vector<double> out;
  for (const double value : values) out.push_back(scale * std::abs(value) + least);
  return out;
}

template <typename Number>
bool same_bits(const std::vector<Number>& a, const std::vector<Number>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Number)) == 0;
}

}  // namespace fake_gpu
