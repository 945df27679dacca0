// SPDX-License-Identifier: Apache-2.0
// Gradients of causal attention in two kernels that recompute the weights from the saved log sums: one sums
// over keys for each query, the other over queries for each key. That is seven products where
// FlashAttention-2 has five, but there are no atomic additions: the same bits each time.
#pragma once

#include "compute/cuda/kernels/attention_tiles.cuh"

namespace muster::compute::cuda {

/// For 64 queries: the tiles of queries and of d out, and two of keys and values each.
template <int width>
constexpr std::size_t attention_queries_bytes = (2 + 2 * 2) * tile_size<width> * sizeof(Bf16x8);
/// For 64 keys: keys and values, two tiles each of queries and d out, and for each of these rows two scalars.
template <int width>
constexpr std::size_t attention_keys_bytes = (2 + 2 * 2) * tile_size<width> * sizeof(Bf16x8) +
                                             2 * 2 * tile_rows * sizeof(float);

/// out[row]·d_out[row], the term that the gradients of all the row's scores share. Two threads per row.
template <int width>
__device__ inline float row_dot(const Rows& out, const Rows& d_out, int row) {
  float dot = 0;
  if (row < out.length) {
    const int begin = static_cast<int>(threadIdx.x) % 2 * (width / 2);
    const Bf16* const left = out.first + static_cast<std::ptrdiff_t>(row) * out.stride + begin;
    const Bf16* const right = d_out.first + static_cast<std::ptrdiff_t>(row) * d_out.stride + begin;
#pragma unroll
    for (int i = 0; i < width / 2; i += 8) {
      float a[8], b[8];
      load_eight(left + i, a);
      load_eight(right + i, b);
#pragma unroll
      for (int j = 0; j < 8; ++j) dot += a[j] * b[j];
    }
  }
  return dot + __shfl_xor_sync(all_lanes, dot, 1);
}

/// Turns scores into weights and d weights into d scores. `log2_sum`, `dot`: of this lane's two queries.
__device__ inline void scores_backward(Sums<tile_rows>& scores, Sums<tile_rows>& d_scores,
                                       const float (&log2_sum)[2], const float (&dot)[2], int first_query,
                                       int first_key, float factor) {
  if (first_key + tile_rows - 1 > first_query) {
    const auto hidden = [=](int query, int key) { return first_key + key > first_query + query; };
    set_where(scores, -INFINITY, hidden);
    set_where(d_scores, 0.0f, hidden);
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      scores[n][j] = power_of_two(scores[n][j] * factor - log2_sum[j / 2]);
      d_scores[n][j] = scores[n][j] * (d_scores[n][j] - dot[j / 2]);
    }
  }
}

/// Computes this lane's two rows' dots, also stored in `dots`, and log sums times log2 e. Two neighbouring
/// lanes compute one of the warp's 16 rows; each lane fetches its accumulators' rows from them.
template <int width>
__device__ inline void prepare_rows(const Rows& out, const Rows& d_out, const float* log_sum, int warp_first,
                                    float* dots, float (&dot)[2], float (&log2_sum)[2]) {
  const int own_row = warp_first + lane() / 2;
  const float own_dot = row_dot<width>(out, d_out, own_row);
  if (lane() % 2 == 0 && own_row < out.length) dots[own_row] = own_dot;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int in_warp = accumulator_row() + 8 * half;
    dot[half] = __shfl_sync(all_lanes, own_dot, 2 * in_warp);
    log2_sum[half] = warp_first + in_warp < out.length ? log_sum[warp_first + in_warp] * log2_e : 0.0f;
  }
}

template <int width>
__device__ inline void queries_backward(unsigned char* shared, int length, int group, const Bf16* qkv,
                                        const Bf16* out, const float* log_sum, const Bf16* d_out, Bf16* d_qkv,
                                        float* dots) {
  Bf16x8* const queries = reinterpret_cast<Bf16x8*>(shared);
  Bf16x8* const d_rows = queries + tile_size<width>;
  const Head head = this_head<width>(length, group);
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * tile_rows;
  const int tiles = first / tile_rows + 1, warp_first = first + warp() * 16;
  const Rows query{qkv + head.in_qkv, head.qkv_stride, length};
  const Rows d_result{d_out + head.in_out, head.out_stride, length};
  const TilePair pair{d_rows + tile_size<width>,
                      d_rows + 3 * tile_size<width>,
                      {query.first + head.key, head.qkv_stride, length},
                      {query.first + head.value, head.qkv_stride, length}};

  begin_tile<width>(queries, query, first);
  begin_tile<width>(d_rows, d_result, first);
  begin_tiles<width>(pair, 0);
  end_copies();
  float dot[2], log2_sum[2];
  prepare_rows<width>({out + head.in_out, head.out_stride, length}, d_result, log_sum + head.in_sums,
                      warp_first, dots + head.in_sums, dot, log2_sum);
  const float scale = score_scale<width>, factor = scale * log2_e;
  Operand<width> q[1], d[1];
  Sums<width> sums[1];
  clear(sums);
  for (int tile = 0; tile < tiles; ++tile) {
    const int now = next_tiles<width>(pair, tile, tiles);
    if (tile == 0) {
      load_operand<width>(q[0], queries, warp() * 16);
      load_operand<width>(d[0], d_rows, warp() * 16);
    }
    Sums<tile_rows> scores[1], d_scores[1];
    clear(scores);
    clear(d_scores);
    multiply_by_rows<width>(scores, q, pair.first + now);
    multiply_by_rows<width>(d_scores, d, pair.second + now);
    scores_backward(scores[0], d_scores[0], log2_sum, dot, warp_first, tile * tile_rows, factor);
    Operand<tile_rows> operand[1];
    round_operand(operand[0], d_scores[0]);
    multiply_by_tile<width>(sums, operand, pair.first + now);
    __syncthreads();
  }
  store_rows(d_qkv + head.in_qkv, head.qkv_stride, warp_first, length, sums[0], scale, scale);
}

/// The scalar of a tile's queries that this thread loads: the first 64 threads load log sums, the others
/// dots. Shared memory holds two tiles', used in turn: [64 log sums times log2 e, 64 dots] each.
__device__ inline bool has_dot() { return threadIdx.x >= unsigned{tile_rows}; }
__device__ inline float load_query_scalar(const float* log_sum, const float* dots, int tile, int length) {
  const int row = tile * tile_rows + static_cast<int>(threadIdx.x % unsigned{tile_rows});
  return row < length ? (has_dot() ? dots : log_sum)[row] : 0.0f;
}
struct alignas(8) Float2 {
  float of[2];
};

/// As scores_backward(), but rows are keys and columns are queries.
__device__ inline void transposed_scores_backward(Sums<tile_rows>& scores, Sums<tile_rows>& d_scores,
                                                  const float* query_scalars, bool on_diagonal,
                                                  float factor) {
  if (on_diagonal) {
    const auto hidden = [](int key, int query) { return warp() * 16 + key > query; };
    set_where(scores, -INFINITY, hidden);
    set_where(d_scores, 0.0f, hidden);
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const auto* const of_queries = reinterpret_cast<const Float2*>(query_scalars + accumulator_column(n));
    const Float2 log2_sum = of_queries[0], dot = of_queries[tile_rows / 2];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      scores[n][j] = power_of_two(scores[n][j] * factor - log2_sum.of[j % 2]);
      d_scores[n][j] = scores[n][j] * (d_scores[n][j] - dot.of[j % 2]);
    }
  }
}

/// Wide heads have no registers to keep a warp's 16 keys and values in: they are loaded again for each
/// product.
template <int width>
constexpr bool keeps_keys = width <= 64;
template <int width>
using WarpOperand = Operand<keeps_keys<width> ? width : 16>;
/// c[16, 64] += this warp's 16 rows of `rows`·other^T. `kept`: these rows, if they are kept.
template <int width>
__device__ inline void multiply_warp_rows(Sums<tile_rows> (&c)[1], const WarpOperand<width> (&kept)[1],
                                          const Bf16x8* rows, const Bf16x8* other) {
  if constexpr (keeps_keys<width>) {
    multiply_by_rows<width>(c, kept, other);
  } else {
#pragma unroll
    for (int step = 0; step < width / 16; ++step) {
      Operand<16> part[1];
      load_step<width>(part[0][0], rows, warp() * 16, step);
      multiply_step<width>(c, part, 0, other, step);
    }
  }
}

/// Adds the contribution of 64 queries to this warp's 16 keys.
template <int width>
__device__ inline void add_queries(Sums<width> (&d_key)[1], Sums<width> (&d_value)[1],
                                   const WarpOperand<width> (&k)[1], const WarpOperand<width> (&v)[1],
                                   const Bf16x8* keys, const Bf16x8* values, const Bf16x8* queries,
                                   const Bf16x8* d_rows, const float* query_scalars, bool on_diagonal,
                                   float factor) {
  Sums<tile_rows> scores[1], d_scores[1];
  clear(scores);
  clear(d_scores);
  multiply_warp_rows<width>(scores, k, keys, queries);
  multiply_warp_rows<width>(d_scores, v, values, d_rows);
  transposed_scores_backward(scores[0], d_scores[0], query_scalars, on_diagonal, factor);
  Operand<tile_rows> operand[1];
  round_operand(operand[0], scores[0]);
  multiply_by_tile<width>(d_value, operand, d_rows);
  round_operand(operand[0], d_scores[0]);
  multiply_by_tile<width>(d_key, operand, queries);
}

template <int width>
__device__ inline void keys_backward(unsigned char* shared, int length, int group, const Bf16* qkv,
                                     const float* log_sum, const Bf16* d_out, const float* dots,
                                     Bf16* d_qkv) {
  Bf16x8* const keys = reinterpret_cast<Bf16x8*>(shared);
  Bf16x8* const values = keys + tile_size<width>;
  const int heads = static_cast<int>(gridDim.y) * group, first_head = static_cast<int>(blockIdx.y) * group;
  // The first keys have most queries.
  const int first_tile = static_cast<int>(blockIdx.x), tiles = (length + tile_rows - 1) / tile_rows;
  const int first = first_tile * tile_rows, warp_first = first + warp() * 16;
  float* const query_scalars = reinterpret_cast<float*>(values + 5 * tile_size<width>);

  const float scale = score_scale<width>, factor = scale * log2_e;
  WarpOperand<width> k[1], v[1];
  Sums<width> d_key[1], d_value[1];
  clear(d_key);
  clear(d_value);
  for (int member = 0; member < group; ++member) {
    const Head head = find_head<width>(length, heads, first_head + member, group);
    const Rows query{qkv + head.in_qkv, head.qkv_stride, length};
    const TilePair pair{values + tile_size<width>,
                        values + 3 * tile_size<width>,
                        query,
                        {d_out + head.in_out, head.out_stride, length}};
    if (member == 0) {
      begin_tile<width>(keys, {query.first + head.key, head.qkv_stride, length}, first);
      begin_tile<width>(values, {query.first + head.value, head.qkv_stride, length}, first);
    }
    begin_tiles<width>(pair, first_tile);
    end_copies();
    const auto number = [=](int tile) {
      return load_query_scalar(log_sum + head.in_sums, dots + head.in_sums, tile, length);
    };
    float next = number(first_tile);
    for (int tile = first_tile; tile < tiles; ++tile) {
      float* const slot = query_scalars + tile % 2 * attention_threads;
      slot[threadIdx.x] = next * (has_dot() ? 1.0f : log2_e);
      const int now = next_tiles<width>(pair, tile, tiles);
      if (tile + 1 < tiles) next = number(tile + 1);  // loads while this tile is processed
      if constexpr (keeps_keys<width>) {
        if (member == 0 && tile == first_tile) {
          load_operand<width>(k[0], keys, warp() * 16);
          load_operand<width>(v[0], values, warp() * 16);
        }
      }
      add_queries<width>(d_key, d_value, k, v, keys, values, pair.first + now, pair.second + now, slot,
                         tile == first_tile, factor);
      __syncthreads();
    }
  }
  const Head head = find_head<width>(length, heads, first_head, group);
  Bf16* const d_first = d_qkv + head.in_qkv;
  store_rows(d_first + head.key, head.qkv_stride, warp_first, length, d_key[0], scale, scale);
  store_rows(d_first + head.value, head.qkv_stride, warp_first, length, d_value[0], 1.0f, 1.0f);
}

#define MUSTER_ATTENTION_BACKWARD_KERNELS(width, ...)                                                      \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__) muster_attention_queries_backward_##width(     \
      int length, int group, const Bf16* qkv, const Bf16* out, const float* log_sum, const Bf16* d_out,    \
      Bf16* d_qkv, float* dots) {                                                                          \
    MUSTER_SHARED_BYTES(shared);                                                                           \
    queries_backward<width>(shared, length, group, qkv, out, log_sum, d_out, d_qkv, dots);                 \
  }                                                                                                        \
  extern "C" __global__ void __launch_bounds__(attention_threads)                                          \
      muster_attention_keys_backward_##width(int length, int group, const Bf16* qkv, const float* log_sum, \
                                             const Bf16* d_out, const float* dots, Bf16* d_qkv) {          \
    MUSTER_SHARED_BYTES(shared);                                                                           \
    keys_backward<width>(shared, length, group, qkv, log_sum, d_out, dots, d_qkv);                         \
  }
MUSTER_ATTENTION_BACKWARD_KERNELS(32, attention_threads, 3)
MUSTER_ATTENTION_BACKWARD_KERNELS(64, attention_threads, 3)
MUSTER_ATTENTION_BACKWARD_KERNELS(96, attention_threads)
MUSTER_ATTENTION_BACKWARD_KERNELS(128, attention_threads)
#undef MUSTER_ATTENTION_BACKWARD_KERNELS

}  // namespace muster::compute::cuda
