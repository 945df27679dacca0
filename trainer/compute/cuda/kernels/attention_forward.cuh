// SPDX-License-Identifier: Apache-2.0
// Causal attention without storing the matrix of scores (FlashAttention-2, arXiv 2307.08691): a block has 128
// queries of one head, each warp 32 of them, and half of both where heads are wide; it processes 64 keys at a
// time and updates the softmax with each.
#pragma once

#include "compute/cuda/kernels/attention_tiles.cuh"

namespace muster::compute::cuda {

/// Of 16 queries, per warp: as many as there are registers for.
template <int width>
constexpr int query_parts = width <= 64 ? 2 : 1;
template <int width>
constexpr int query_rows = 64 * query_parts<width>;  ///< per block
/// Shared memory: queries, and keys and values twice.
template <int width>
constexpr std::size_t attention_forward_bytes = (query_parts<width> + 2 * 2) * tile_size<width> *
                                                sizeof(Bf16x8);

/// The running softmax of 16 queries: this lane's upper and lower row.
struct Softmax {
  float largest[2];  ///< score
  float total[2];    ///< of the weights in this lane's columns
};

/// Turns scores into weights exp2(factor * (score - largest)) and rescales earlier sums to the new largest.
/// `first_query`, `first_key`: of these 16x64 scores.
template <int eights>
__device__ inline void online_softmax(Sums<tile_rows>& scores, float (&out)[eights][4], Softmax& softmax,
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
    for (int n = 0; n < 8 || n < eights; ++n) {
#pragma unroll
      for (int j = 2 * half; j < 2 * half + 2; ++j) {
        if (n < 8) {
          scores[n][j] = power_of_two(scores[n][j] * factor - subtract);
          softmax.total[half] += scores[n][j];
        }
        if (n < eights) out[n][j] *= correction;
      }
    }
  }
}

/// Writes the rows of attention and their log sums.
template <int eights>
__device__ inline void finish_rows(Bf16* out, std::ptrdiff_t stride, float* log_sum, int first, int length,
                                   const float (&c)[eights][4], Softmax& softmax, float scale) {
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
template <int width, int parts>
__device__ inline void add_keys(Sums<width> (&sums)[parts], Softmax (&softmax)[parts],
                                const Operand<width> (&q)[parts], const Bf16x8* keys, const Bf16x8* values,
                                int first_query, int first_key, float factor) {
  Sums<tile_rows> scores[parts];
  clear(scores);
  multiply_by_rows<width>(scores, q, keys);
  Operand<tile_rows> weights[parts];
#pragma unroll
  for (int part = 0; part < parts; ++part) {
    online_softmax(scores[part], sums[part], softmax[part], first_query + 16 * part, first_key, factor);
    round_operand(weights[part], scores[part]);
  }
  multiply_by_tile<width>(sums, weights, values);
}

/// Head documents the layout.
template <int width>
__device__ inline void attend(unsigned char* shared, int length, int group, const Bf16* qkv, Bf16* out,
                              float* log_sum) {
  constexpr int parts = query_parts<width>, rows = query_rows<width>, warp_queries = 16 * parts;
  Bf16x8* const queries = reinterpret_cast<Bf16x8*>(shared);
  const Head head = this_head<width>(length, group);
  // The last queries have most keys, so their blocks start first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * rows;
  const int end = first + rows < length ? first + rows : length;
  const int tiles = (end + tile_rows - 1) / tile_rows;
  const int warp_first = first + warp() * warp_queries;
  const Rows query{qkv + head.in_qkv, head.qkv_stride, length};
  const TilePair pair{queries + parts * tile_size<width>,
                      queries + (parts + 2) * tile_size<width>,
                      {query.first + head.key, head.qkv_stride, length},
                      {query.first + head.value, head.qkv_stride, length}};

  begin_tile<width, rows>(queries, query, first);
  begin_tiles<width>(pair, 0);
  end_copies();
  const float scale = score_scale<width>, factor = scale * log2_e;
  Operand<width> q[parts];
  Sums<width> sums[parts];
  clear(sums);
  Softmax softmax[parts];
  for (Softmax& part : softmax) part = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
  for (int tile = 0; tile < tiles; ++tile) {
    const int now = next_tiles<width>(pair, tile, tiles);
    if (tile == 0) {
#pragma unroll
      for (int part = 0; part < parts; ++part)
        load_operand<width>(q[part], queries, warp() * warp_queries + 16 * part);
    }
    if (tile * tile_rows < warp_first + warp_queries)
      add_keys<width>(sums, softmax, q, pair.first + now, pair.second + now, warp_first, tile * tile_rows,
                      factor);
    __syncthreads();
  }
#pragma unroll
  for (int part = 0; part < parts; ++part)
    finish_rows(out + head.in_out, head.out_stride, log_sum + head.in_sums, warp_first + 16 * part, length,
                sums[part], softmax[part], scale);
}

/// Grid: (blocks of query_rows<width> queries, heads, batch).
#define MUSTER_ATTENTION_KERNEL(width)                                                              \
  extern "C" __global__ void __launch_bounds__(attention_threads)                                   \
      muster_attention_##width(int length, int group, const Bf16* qkv, Bf16* out, float* log_sum) { \
    MUSTER_SHARED_BYTES(shared);                                                                    \
    attend<width>(shared, length, group, qkv, out, log_sum);                                        \
  }
MUSTER_ATTENTION_KERNEL(32)
MUSTER_ATTENTION_KERNEL(64)
MUSTER_ATTENTION_KERNEL(96)
MUSTER_ATTENTION_KERNEL(128)
#undef MUSTER_ATTENTION_KERNEL

}  // namespace muster::compute::cuda
