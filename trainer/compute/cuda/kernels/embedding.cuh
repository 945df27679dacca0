// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/kernels/column_sum.cuh"

namespace muster::compute::cuda {

/// out[row] = token_table[tokens[row]] + position_table[row % length], which may be null. One thread per
/// eight columns of a row.
extern "C" __global__ void __launch_bounds__(256)
    muster_embed(int rows, int length, int width, const std::uint32_t* tokens, const Bf16* token_table,
                 const Bf16* position_table, float* out) {
  const auto in_row = static_cast<std::size_t>(width) / 8;
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= in_row * static_cast<std::size_t>(rows)) return;
  const std::size_t row = i / in_row, column = i % in_row * 8;
  float token[8], position[8];
  load_eight(token_table + tokens[row] * static_cast<std::size_t>(width) + column, token);
  if (position_table == nullptr) {
    store_eight(out + row * static_cast<std::size_t>(width) + column, token);
    return;
  }
  load_eight(
      position_table + row % static_cast<std::size_t>(length) * static_cast<std::size_t>(width) + column,
      position);
#pragma unroll
  for (int j = 0; j < 8; ++j) token[j] += position[j];
  store_eight(out + row * static_cast<std::size_t>(width) + column, token);
}

/// Adds the rows of d_out to their tokens' rows of d_token_table, one block per token and 256 columns:
/// order[begins[i]] … order[begins[i + 1] - 1] are the rows that hold token distinct[i], in ascending order.
/// Grid: (distinct tokens, blocks of 256 columns). Shared memory: column_sums_bytes.
extern "C" __global__ void __launch_bounds__(column_threads, 6)
    muster_embed_tokens_backward(int width, const std::uint32_t* distinct, const std::uint32_t* begins,
                                 const std::uint32_t* order, const float* d_out, float* d_token_table) {
  MUSTER_SHARED_BYTES(shared);
  float* const all = reinterpret_cast<float*>(shared);
  const std::uint32_t end = begins[blockIdx.x + 1];
  const int column = static_cast<int>(blockIdx.y) * 8 * warp_size + 8 * lane();
  float sums[8] = {};
  if (column < width) {
    add_rows<2>(sums, d_out + column, width, begins[blockIdx.x] + static_cast<std::uint32_t>(warp()), end,
                column_warps, [=](std::uint32_t i) { return order[i]; });
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) all[(warp() * 8 + j) * warp_size + lane()] = sums[j];
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x), to = static_cast<int>(blockIdx.y) * 8 * warp_size + mine;
  if (to >= width) return;
  float total = 0;
  for (int w = 0; w < column_warps; ++w) total += all[(w * 8 + mine % 8) * warp_size + mine / 8];
  d_token_table[distinct[blockIdx.x] * static_cast<std::size_t>(width) + static_cast<std::size_t>(to)] +=
      total;
}

/// d_position_table[position] += the sum over the batch of d_out. One thread per eight columns of a position.
extern "C" __global__ void __launch_bounds__(256)
    muster_embed_positions_backward(int batch, int length, int width, const float* d_out,
                                    float* d_position_table) {
  const std::size_t size = static_cast<std::size_t>(length) * static_cast<std::size_t>(width);
  const std::size_t at = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * 8;
  if (at >= size) return;
  float sums[8] = {};
#pragma unroll 4
  for (int i = 0; i < batch; ++i) {
    float part[8];
    load_eight(d_out + static_cast<std::size_t>(i) * size + at, part);
#pragma unroll
    for (int j = 0; j < 8; ++j) sums[j] += part[j];
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) d_position_table[at + static_cast<std::size_t>(j)] += sums[j];
}

}  // namespace muster::compute::cuda
