// SPDX-License-Identifier: Apache-2.0
// Causal attention without storing the matrix of scores (FlashAttention-2, arXiv 2307.08691): a block has 128
// queries of one head, each warp 32 of them; it processes 64 keys at a time and updates the softmax with
// each.
#pragma once

#include "compute/cuda/kernels/attention_tiles.cuh"

namespace muster::compute::cuda {

constexpr int query_rows = 128;  ///< per block
constexpr int query_parts = 2;   ///< of 16 rows, per warp
constexpr int warp_queries = 16 * query_parts;
/// Shared memory: queries, and keys and values twice.
constexpr std::size_t attention_forward_bytes = (2 + 2 * 2) * tile_size * sizeof(Bf16x8);

/// The running softmax of 16 queries: this lane's upper and lower row.
struct Softmax {
  float largest[2];  ///< score
  float total[2];    ///< of the weights in this lane's columns
};

/// Turns scores into weights exp2(factor * (score - largest)) and rescales earlier sums to the new largest.
/// `first_query`, `first_key`: of these 16x64 scores.
__device__ inline void online_softmax(float (&scores)[8][4], float (&out)[8][4], Softmax& softmax,
                                      int first_query, int first_key, float factor) {
  if (first_key + tile_rows - 1 > first_query)
    set_where(scores, -INFINITY, [=](int query, int key) { return first_key + key > first_query + query; });
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = softmax.largest[half];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int j = 2 * half; j < 2 * half + 2; ++j) largest = fmaxf(largest, scores[n][j]);
    }
    // Four neighbouring lanes hold a row's columns.
    largest = fmaxf(largest, __shfl_xor_sync(all_lanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(all_lanes, largest, 2));
    const float correction = power_of_two((softmax.largest[half] - largest) * factor);
    const float subtract = largest * factor;
    softmax.largest[half] = largest;
    softmax.total[half] *= correction;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int j = 2 * half; j < 2 * half + 2; ++j) {
        scores[n][j] = power_of_two(scores[n][j] * factor - subtract);
        softmax.total[half] += scores[n][j];
        out[n][j] *= correction;
      }
    }
  }
}

/// Writes the rows of attention and their log sums.
__device__ inline void finish_rows(Bf16* out, std::ptrdiff_t stride, float* log_sum, int first, int length,
                                   const float (&c)[8][4], Softmax& softmax, float scale) {
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = softmax.total[half];
    total += __shfl_xor_sync(all_lanes, total, 1);
    total += __shfl_xor_sync(all_lanes, total, 2);
    inverse[half] = 1.0f / total;
    const int row = first + accumulator_row() + 8 * half;
    if (lane() % 4 == 0 && row < length) log_sum[row] = softmax.largest[half] * scale + logf(total);
  }
  store_rows(out, stride, first, length, c, inverse[0], inverse[1]);
}

/// Adds the contribution of 64 keys to this warp's queries.
__device__ inline void add_keys(float (&sums)[query_parts][8][4], Softmax (&softmax)[query_parts],
                                const std::uint32_t (&q)[query_parts][4][4], const Bf16x8* keys,
                                const Bf16x8* values, int first_query, int first_key, float factor) {
  float scores[query_parts][8][4];
  clear(scores);
  multiply_by_rows(scores, q, keys);
  std::uint32_t weights[query_parts][4][4];
#pragma unroll
  for (int part = 0; part < query_parts; ++part) {
    online_softmax(scores[part], sums[part], softmax[part], first_query + 16 * part, first_key, factor);
    round_operand(weights[part], scores[part]);
  }
  multiply_by_tile(sums, weights, values);
}

/// Head documents the layout.
/// Grid: (blocks of 128 queries, heads, batch).
extern "C" __global__ void __launch_bounds__(attention_threads)
    muster_attention(int length, int group, const Bf16* qkv, Bf16* out, float* log_sum) {
  MUSTER_SHARED_BYTES(shared);
  Bf16x8* const queries = reinterpret_cast<Bf16x8*>(shared);
  const Head head = this_head(length, group);
  // The last queries have most keys, so their blocks start first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * query_rows;
  const int end = first + query_rows < length ? first + query_rows : length;
  const int tiles = (end + tile_rows - 1) / tile_rows;
  const int warp_first = first + warp() * warp_queries;
  const Rows query{qkv + head.in_qkv, head.qkv_stride, length};
  const TilePair pair{queries + 2 * tile_size,
                      queries + 4 * tile_size,
                      {query.first + head.key, head.qkv_stride, length},
                      {query.first + head.value, head.qkv_stride, length}};

  begin_tile<query_rows>(queries, query, first);
  begin_tiles(pair, 0);
  end_copies();
  const float scale = 0.125f, factor = scale * log2_e;  // 1 / sqrt(64)
  std::uint32_t q[query_parts][4][4];
  float sums[query_parts][8][4];
  clear(sums);
  Softmax softmax[query_parts];
  for (Softmax& part : softmax) part = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
  for (int tile = 0; tile < tiles; ++tile) {
    const int now = next_tiles(pair, tile, tiles);
    if (tile == 0) {
#pragma unroll
      for (int part = 0; part < query_parts; ++part)
        load_operand(q[part], queries, warp() * warp_queries + 16 * part);
    }
    if (tile * tile_rows < warp_first + warp_queries)
      add_keys(sums, softmax, q, pair.first + now, pair.second + now, warp_first, tile * tile_rows, factor);
    __syncthreads();
  }
#pragma unroll
  for (int part = 0; part < query_parts; ++part)
    finish_rows(out + head.in_out, head.out_stride, log_sum + head.in_sums, warp_first + 16 * part, length,
                sums[part], softmax[part], scale);
}

}  // namespace muster::compute::cuda
