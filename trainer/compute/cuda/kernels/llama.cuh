// SPDX-License-Identifier: Apache-2.0
// Rotary positions and the gated MLP of the Llama kind. One thread moves eight elements of each array.
#pragma once

#include "compute/cuda/kernels/warp.cuh"

namespace muster::compute::cuda {

constexpr int llama_threads = 256;

/// Rotates elements i and i + width / 2 of the first `heads` heads of each row by the row's position; sign -1
/// rotates back. table: for each position width / 2 cosines and as many sines.
template <int width>
__device__ inline void rotate_heads(int rows, int length, int heads, int row_width, const float* table,
                                    float sign, Bf16* x) {
  constexpr int half = width / 2, parts = half / 8;
  const std::size_t in_row = static_cast<std::size_t>(heads) * parts;
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= in_row * static_cast<std::size_t>(rows)) return;
  const std::size_t row = i / in_row, head = i % in_row / parts, column = i % parts * 8;
  const float* const cosines = table + row % static_cast<std::size_t>(length) * 2 * half + column;
  Bf16* const low = x + row * static_cast<std::size_t>(row_width) + head * 2 * half + column;
  float a[8], b[8];
  load_eight(low, a);
  load_eight(low + half, b);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float cosine = cosines[j], sine = sign * cosines[half + j], before = a[j];
    a[j] = before * cosine - b[j] * sine;
    b[j] = b[j] * cosine + before * sine;
  }
  store_eight(low, a);
  store_eight(low + half, b);
}

#define MUSTER_ROTATE_KERNEL(width)                                                              \
  extern "C" __global__ void __launch_bounds__(llama_threads) muster_rotate_##width(             \
      int rows, int length, int heads, int row_width, const float* table, float sign, Bf16* x) { \
    rotate_heads<width>(rows, length, heads, row_width, table, sign, x);                         \
  }
MUSTER_ROTATE_KERNEL(32)
MUSTER_ROTATE_KERNEL(64)
MUSTER_ROTATE_KERNEL(96)
MUSTER_ROTATE_KERNEL(128)
#undef MUSTER_ROTATE_KERNEL

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

/// out[rows, width] = silu(gate) * up, with (gate | up) in each row of gate_up.
extern "C" __global__ void __launch_bounds__(llama_threads)
    muster_swiglu(int rows, int width, const Bf16* gate_up, Bf16* out) {
  const auto columns = static_cast<std::size_t>(width);
  const std::size_t at = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * 8, row = at / columns;
  if (row >= static_cast<std::size_t>(rows)) return;
  const Bf16* const of_gate = gate_up + row * columns + at;
  float gate[8], up[8];
  load_eight(of_gate, gate);
  load_eight(of_gate + columns, up);
#pragma unroll
  for (int j = 0; j < 8; ++j) gate[j] *= sigmoid(gate[j]) * up[j];
  store_eight(out + at, gate);
}

extern "C" __global__ void __launch_bounds__(llama_threads)
    muster_swiglu_backward(int rows, int width, const Bf16* gate_up, const Bf16* d_out, Bf16* d_gate_up) {
  const auto columns = static_cast<std::size_t>(width);
  const std::size_t at = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * 8, row = at / columns;
  if (row >= static_cast<std::size_t>(rows)) return;
  const std::size_t wide = row * columns + at;
  float gate[8], up[8], d[8];
  load_eight(gate_up + wide, gate);
  load_eight(gate_up + wide + columns, up);
  load_eight(d_out + at, d);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float x = gate[j], s = sigmoid(x);
    gate[j] = d[j] * up[j] * s * (1.0f + x * (1.0f - s));
    up[j] = d[j] * x * s;
  }
  store_eight(d_gate_up + wide, gate);
  store_eight(d_gate_up + wide + columns, up);
}

}  // namespace muster::compute::cuda
