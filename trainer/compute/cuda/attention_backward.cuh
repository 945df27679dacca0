// SPDX-License-Identifier: Apache-2.0
// Gradients of causal attention in two kernels that compute the weights anew from the saved log sums: one
// adds up for each query, the other for each key. That is seven products where FlashAttention-2 has five, but
// nothing is added by atomics: the same bits each time.
#pragma once

#include "compute/cuda/attention_tiles.cuh"

namespace muster::compute::cuda {

/// Of 64 queries: the tiles of queries and of d out, then keys and values twice.
constexpr std::size_t attention_queries_bytes = (2 + 2 * 2) * tile_size * sizeof(EightNarrow);
/// Of 64 keys: keys and values, then queries and d out twice, and twice two numbers for each of these rows.
constexpr std::size_t attention_keys_bytes =
    (2 + 2 * 2) * tile_size * sizeof(EightNarrow) + 2 * 2 * tile_rows * sizeof(float);

/// The geometry that both kernels share: qkv and d_qkv [batch, length, 3, heads, 64], out and d_out [batch,
/// length, heads, 64], log_sum and dots [batch, heads, length].
struct Head {
  std::ptrdiff_t in_qkv, in_out, in_sums;  ///< where it begins
  std::ptrdiff_t qkv_stride, out_stride;
  int width;
};
__device__ inline Head this_head(int length) {
  const int heads = static_cast<int>(gridDim.y), width = heads * 64;
  const auto sequence = static_cast<std::ptrdiff_t>(blockIdx.z);
  const int column = static_cast<int>(blockIdx.y) * 64;
  return {sequence * length * 3 * width + column,
          sequence * length * width + column,
          (sequence * heads + static_cast<std::ptrdiff_t>(blockIdx.y)) * length,
          3 * std::ptrdiff_t{width},
          width,
          width};
}

/// dots[row] = out[row]·d_out[row] of 64 rows, which is what a row's scores' gradients have in common. Two
/// threads have a row.
__device__ inline float dot_of_row(const Rows& out, const Rows& d_out, int row) {
  float dot = 0;
  if (row < out.length) {
    const int begin = static_cast<int>(threadIdx.x) % 2 * 32;
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
      float a[8], b[8];
      load_eight(out.first + row * out.stride + begin + i, a);
      load_eight(d_out.first + row * d_out.stride + begin + i, b);
#pragma unroll
      for (int j = 0; j < 8; ++j) dot += a[j] * b[j];
    }
  }
  return dot + __shfl_xor_sync(all_lanes, dot, 1);
}

/// Scores to weights and d weights to d scores; `row`: the number of this lane's upper row; a query's log sum
/// and dot.
__device__ inline void scores_backward(float (&scores)[8][4], float (&d_scores)[8][4],
                                       const float (&log2_sum)[2], const float (&dot)[2], int first_query,
                                       int first_key, float factor) {
  const bool on_diagonal = first_key + tile_rows - 1 > first_query;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int query = first_query + accumulator_row() + j / 2 * 8;
      const bool hidden = on_diagonal && first_key + accumulator_column(n) + j % 2 > query;
      const float weight = hidden ? 0.0f : power_of_two(scores[n][j] * factor - log2_sum[j / 2]);
      scores[n][j] = weight;
      d_scores[n][j] = hidden ? 0.0f : weight * (d_scores[n][j] - dot[j / 2]);
    }
  }
}

/// d query and dots. Grid: (blocks of 64 queries, heads, batch).
extern "C" __global__ void __launch_bounds__(attention_threads)
    muster_attention_queries_backward(int length, const Narrow* qkv, const Narrow* out, const float* log_sum,
                                      const Narrow* d_out, Narrow* d_qkv, float* dots) {
  MUSTER_SHARED_BYTES(shared);
  EightNarrow* const queries = reinterpret_cast<EightNarrow*>(shared);
  EightNarrow* const d_rows = queries + tile_size;
  EightNarrow* const keys = d_rows + tile_size;
  EightNarrow* const values = keys + 2 * tile_size;
  const Head head = this_head(length);
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * tile_rows;
  const Rows query{qkv + head.in_qkv, head.qkv_stride, length};
  const Rows key{query.first + head.width, head.qkv_stride, length};
  const Rows value{key.first + head.width, head.qkv_stride, length};
  const Rows result{out + head.in_out, head.out_stride, length},
      d_result{d_out + head.in_out, head.out_stride, length};
  const int tiles = first / tile_rows + 1;
  const int warp_first = first + warp() * 16;

  begin_tile(queries, query, first, tile_rows);
  begin_tile(d_rows, d_result, first, tile_rows);
  begin_tile(keys, key, 0, tile_rows);
  begin_tile(values, value, 0, tile_rows);
  end_copies();
  // Two neighbours have a row of this warp's 16; each lane then takes its accumulators' rows from them.
  const int own_row = warp_first + lane() / 2;
  const float own_dot = dot_of_row(result, d_result, own_row);
  if (lane() % 2 == 0 && own_row < length) dots[head.in_sums + own_row] = own_dot;
  float dot[2], log2_sum[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int in_warp = accumulator_row() + 8 * half;
    dot[half] = __shfl_sync(all_lanes, own_dot, 2 * in_warp);
    log2_sum[half] =
        warp_first + in_warp < length ? log_sum[head.in_sums + warp_first + in_warp] * log2_e : 0.0f;
  }
  const float scale = 0.125f, factor = scale * log2_e;
  std::uint32_t q[1][4][4], d[1][4][4];
  float sums[1][8][4];
  clear(sums);
  for (int tile = 0; tile < tiles; ++tile) {
    const int now = tile % 2 * tile_size, next = (tile + 1) % 2 * tile_size;
    if (tile + 1 < tiles) {
      begin_tile(keys + next, key, (tile + 1) * tile_rows, tile_rows);
      begin_tile(values + next, value, (tile + 1) * tile_rows, tile_rows);
    }
    end_copies();
    await_copies<1>();
    __syncthreads();
    if (tile == 0) {
      load_operand(q[0], queries, warp() * 16);
      load_operand(d[0], d_rows, warp() * 16);
    }
    float scores[1][8][4], d_scores[1][8][4];
    clear(scores);
    clear(d_scores);
    multiply_by_rows(scores, q, keys + now);
    multiply_by_rows(d_scores, d, values + now);
    scores_backward(scores[0], d_scores[0], log2_sum, dot, warp_first, tile * tile_rows, factor);
    std::uint32_t operand[1][4][4];
    round_operand(operand[0], d_scores[0]);
    multiply_by_tile(sums, operand, keys + now);
    __syncthreads();
  }
  store_rows(d_qkv + head.in_qkv, head.qkv_stride, warp_first, length, sums[0], scale, scale);
}

/// Begins to copy 64 rows of queries and d out, and takes their log sums (times log2 e) and dots.
__device__ inline void begin_query_tile(EightNarrow* queries, EightNarrow* d_rows, float* log2_sums,
                                        float* row_dots, const Rows& query, const Rows& d_result,
                                        const float* log_sum, const float* dots, int first) {
  begin_tile(queries, query, first, tile_rows);
  begin_tile(d_rows, d_result, first, tile_rows);
  const int i = static_cast<int>(threadIdx.x) % tile_rows;
  const bool there = first + i < query.length;
  if (static_cast<int>(threadIdx.x) < tile_rows) {
    log2_sums[i] = there ? log_sum[first + i] * log2_e : 0.0f;
  } else {
    row_dots[i] = there ? dots[first + i] : 0.0f;
  }
}

/// As scores_backward(), but rows are keys and columns are queries.
__device__ inline void turned_scores_backward(float (&scores)[8][4], float (&d_scores)[8][4],
                                              const float* log2_sums, const float* dots, bool on_diagonal,
                                              float factor) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int query = accumulator_column(n) + j % 2;
      const int key = warp() * 16 + accumulator_row() + j / 2 * 8;
      const bool hidden = on_diagonal && key > query;
      const float weight = hidden ? 0.0f : power_of_two(scores[n][j] * factor - log2_sums[query]);
      scores[n][j] = weight;
      d_scores[n][j] = hidden ? 0.0f : weight * (d_scores[n][j] - dots[query]);
    }
  }
}

/// d key and d value, after dots are there. Grid: (blocks of 64 keys, heads, batch).
extern "C" __global__ void __launch_bounds__(attention_threads)
    muster_attention_keys_backward(int length, const Narrow* qkv, const float* log_sum, const Narrow* d_out,
                                   const float* dots, Narrow* d_qkv) {
  MUSTER_SHARED_BYTES(shared);
  EightNarrow* const keys = reinterpret_cast<EightNarrow*>(shared);
  EightNarrow* const values = keys + tile_size;
  EightNarrow* const queries = values + tile_size;
  EightNarrow* const d_rows = queries + 2 * tile_size;
  float* const log2_sums = reinterpret_cast<float*>(d_rows + 2 * tile_size);
  float* const row_dots = log2_sums + 2 * tile_rows;
  const Head head = this_head(length);
  // The first keys meet most queries.
  const int first = static_cast<int>(blockIdx.x) * tile_rows;
  const Rows query{qkv + head.in_qkv, head.qkv_stride, length};
  const Rows key{query.first + head.width, head.qkv_stride, length};
  const Rows value{key.first + head.width, head.qkv_stride, length};
  const Rows d_result{d_out + head.in_out, head.out_stride, length};
  log_sum += head.in_sums;
  dots += head.in_sums;

  begin_tile(keys, key, first, tile_rows);
  begin_tile(values, value, first, tile_rows);
  begin_query_tile(queries, d_rows, log2_sums, row_dots, query, d_result, log_sum, dots, first);
  end_copies();
  const float scale = 0.125f, factor = scale * log2_e;
  std::uint32_t k[1][4][4], v[1][4][4];
  float d_key[1][8][4], d_value[1][8][4];
  clear(d_key);
  clear(d_value);
  for (int from = first, turn = 0; from < length; from += tile_rows, turn ^= 1) {
    const int now = turn * tile_size, next = (turn ^ 1) * tile_size;
    if (from + tile_rows < length)
      begin_query_tile(queries + next, d_rows + next, log2_sums + (turn ^ 1) * tile_rows,
                       row_dots + (turn ^ 1) * tile_rows, query, d_result, log_sum, dots, from + tile_rows);
    end_copies();
    await_copies<1>();
    __syncthreads();
    if (from == first) {
      load_operand(k[0], keys, warp() * 16);
      load_operand(v[0], values, warp() * 16);
    }
    float scores[1][8][4], d_scores[1][8][4];
    clear(scores);
    clear(d_scores);
    multiply_by_rows(scores, k, queries + now);
    multiply_by_rows(d_scores, v, d_rows + now);
    turned_scores_backward(scores[0], d_scores[0], log2_sums + turn * tile_rows, row_dots + turn * tile_rows,
                           from == first, factor);
    std::uint32_t operand[1][4][4];
    round_operand(operand[0], scores[0]);
    multiply_by_tile(d_value, operand, d_rows + now);
    round_operand(operand[0], d_scores[0]);
    multiply_by_tile(d_key, operand, queries + now);
    __syncthreads();
  }
  Narrow* const d_first = d_qkv + head.in_qkv;
  const int warp_first = first + warp() * 16;
  store_rows(d_first + head.width, head.qkv_stride, warp_first, length, d_key[0], scale, scale);
  store_rows(d_first + 2 * head.width, head.qkv_stride, warp_first, length, d_value[0], 1.0f, 1.0f);
}

}  // namespace muster::compute::cuda
