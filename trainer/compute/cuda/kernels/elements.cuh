// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels. Arrays begin at multiples of 16 bytes; `count` is a multiple of 8 if the inputs have
// 16-bit elements.
#pragma once

#include "compute/cuda/kernels/warp.cuh"

namespace muster::compute::cuda {

/// GELU with tanh (Hendrycks and Gimpel, arXiv 1606.08415) as x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715
/// x^3).
__device__ inline float gelu_gate(float x) {
  const float u = 0.7978845608028654f * x * (1.0f + 0.044715f * x * x);
  return 1.0f / (1.0f + exponential(-2.0f * u));
}
__device__ inline float gelu_slope(float x) {
  const float gate = gelu_gate(x);
  const float slope = 2 * 0.7978845608028654f * (1.0f + 3 * 0.044715f * x * x);
  // Without this test, 0 times infinity for the largest numbers where the gate is 0 or 1.
  const float bend = gate * (1.0f - gate);
  return bend == 0.0f ? gate : gate + x * bend * slope;
}

extern "C" __global__ void __launch_bounds__(element_threads)
    muster_gelu(std::size_t count, const Bf16* x, Bf16* out) {
  for_each_group<8>(count, [=](std::size_t at) {
    float part[8];
    load_eight(x + at, part);
#pragma unroll
    for (int i = 0; i < 8; ++i) part[i] *= gelu_gate(part[i]);
    store_eight(out + at, part);
  });
}

/// d_inout *= gelu'(x).
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_gelu_backward(std::size_t count, const Bf16* x, Bf16* d_inout) {
  for_each_group<8>(count, [=](std::size_t at) {
    float part[8], d[8];
    load_eight(x + at, part);
    load_eight(d_inout + at, d);
#pragma unroll
    for (int i = 0; i < 8; ++i) d[i] *= gelu_slope(part[i]);
    store_eight(d_inout + at, d);
  });
}

/// out = x, rounded to nearest even. Any count.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_round(std::size_t count, const float* x, Bf16* out) {
  for_each_group<4>(count, [=](std::size_t at) { store_four(out, at, count, load_four(x, at, count)); });
}

/// sum += x, or sum = x if `first` is not 0. Any count.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_accumulate(std::size_t count, const float* x, int first, float* sum) {
  for_each_group<4>(count, [=](std::size_t at) {
    const Float4 added = load_four(x, at, count);
    Float4 total = added;
    if (first == 0) {
      total = load_four(sum, at, count);
#pragma unroll
      for (int i = 0; i < 4; ++i) total.of[i] += added.of[i];
    }
    store_four(sum, at, count, total);
  });
}

}  // namespace muster::compute::cuda
