// SPDX-License-Identifier: Apache-2.0
// Tiles of 64 columns, the width of a head, in shared memory, and products with them on tensor cores.
#pragma once

#include "compute/cuda/kernels/mma.cuh"

namespace muster::compute::cuda {

constexpr int attention_threads = 128;
constexpr int tile_rows = 64;  ///< keys, or queries, that a block processes at a time
constexpr int eights = 8;      ///< 16-byte pieces of a row
constexpr int tile_size = tile_rows * eights;
constexpr float log2_e = 1.4426950408889634f;
constexpr float natural_log_of_2 = 0.6931471805599453f;

/// One head of one sequence in memory.
struct Rows {
  const Bf16* first;
  int stride;  ///< elements from row to row
  int length;  ///< rows
};

/// The layout that all kernels share: qkv and d_qkv [batch, length, heads + 2 * heads / group, 64], out and
/// d_out [batch, length, heads, 64], log_sum and dots [batch, heads, length]. `group` heads of queries share
/// a head of keys and values.
struct Head {
  std::ptrdiff_t in_qkv, in_out, in_sums;  ///< offsets of its first element
  int key, value;                          ///< offsets of its keys and values from its queries
  int qkv_stride, out_stride;
};
__device__ inline Head find_head(int length, int heads, int head, int group) {
  const int width = heads * 64, kv_width = width / group, stride = width + 2 * kv_width;
  const int column = head * 64, kv_column = head / group * 64;
  const auto sequence = static_cast<std::ptrdiff_t>(blockIdx.z);
  return {sequence * length * stride + column,
          sequence * length * width + column,
          (sequence * heads + head) * length,
          width + kv_column - column,
          width + kv_width + kv_column - column,
          stride,
          width};
}
/// Of a grid with a row of blocks for each head of queries.
__device__ inline Head this_head(int length, int group) {
  return find_head(length, static_cast<int>(gridDim.y), static_cast<int>(blockIdx.y), group);
}

/// XORs a piece's index with its row's, so that the pieces of eight rows lie in different banks.
__device__ inline int swizzle(int row, int piece) { return row * eights + (piece ^ (row & 7)); }

/// Starts copying `rows` rows from `first` on; rows beyond the last are zeros.
template <int rows = tile_rows>
__device__ inline void begin_tile(Bf16x8* tile, const Rows& from, int first) {
  constexpr int at_once = attention_threads / eights;
  static_assert(at_once % 8 == 0);  // so that all of a thread's pieces have the same index in their rows
  const int row = static_cast<int>(threadIdx.x / unsigned{eights});
  const int piece = static_cast<int>(threadIdx.x % unsigned{eights});
  Bf16x8* const to = tile + swizzle(row, piece);
  const Bf16* const at = from.first + static_cast<std::ptrdiff_t>(first + row) * from.stride + 8 * piece;
#pragma unroll
  for (int i = 0; i < rows; i += at_once)
    copy_async(to + i * eights, at + static_cast<std::ptrdiff_t>(i) * from.stride,
               first + row + i < from.length);
}

/// Two arrays of tiles, double-buffered: each pair of tiles is used while the next is copied.
struct TilePair {
  Bf16x8 *first, *second;
  Rows first_rows, second_rows;
};
__device__ inline void begin_tiles(const TilePair& pair, int tile) {
  const int at = tile % 2 * tile_size;
  begin_tile(pair.first + at, pair.first_rows, tile * tile_rows);
  begin_tile(pair.second + at, pair.second_rows, tile * tile_rows);
}
/// Starts copying the tiles after number `tile` of `tiles` and waits for that one. Returns its offset.
__device__ inline int next_tiles(const TilePair& pair, int tile, int tiles) {
  if (tile + 1 < tiles) begin_tiles(pair, tile + 1);
  end_copies();
  await_copies<1>();
  __syncthreads();
  return tile % 2 * tile_size;
}

/// 16 rows of a tile from `row` on, all 64 columns, as the first operand.
__device__ inline void load_operand(std::uint32_t (&to)[4][4], const Bf16x8* tile, int row) {
#pragma unroll
  for (int step = 0; step < 4; ++step)
    load_matrices(to[step], tile + swizzle(row + lane() % 16, 2 * step + lane() / 16));
}

/// Accumulators of 16x64, rounded, as the first operand of the next product.
__device__ inline void round_operand(std::uint32_t (&to)[4][4], const float (&from)[8][4]) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    to[step][0] = narrow_pair(from[2 * step][0], from[2 * step][1]);
    to[step][1] = narrow_pair(from[2 * step][2], from[2 * step][3]);
    to[step][2] = narrow_pair(from[2 * step + 1][0], from[2 * step + 1][1]);
    to[step][3] = narrow_pair(from[2 * step + 1][2], from[2 * step + 1][3]);
  }
}

/// c[16, 64] += a[16, 64]·tile^T, `count` times.
template <int count>
__device__ inline void multiply_by_rows(float (&c)[count][8][4], const std::uint32_t (&a)[count][4][4],
                                        const Bf16x8* tile) {
  const int row = lane() % 8 + lane() / 16 * 8, piece = lane() / 8 % 2;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      std::uint32_t b[4];
      load_matrices(b, tile + swizzle(8 * n + row, 2 * step + piece));
#pragma unroll
      for (int i = 0; i < count; ++i) {
        multiply_add(c[i][n], a[i][step], b[0], b[1]);
        multiply_add(c[i][n + 1], a[i][step], b[2], b[3]);
      }
    }
  }
}

/// c[16, 64] += a[16, 64]·tile, `count` times.
template <int count>
__device__ inline void multiply_by_tile(float (&c)[count][8][4], const std::uint32_t (&a)[count][4][4],
                                        const Bf16x8* tile) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      std::uint32_t b[4];
      load_matrices_transposed(b, tile + swizzle(16 * step + lane() % 16, n + lane() / 16));
#pragma unroll
      for (int i = 0; i < count; ++i) {
        multiply_add(c[i][n], a[i][step], b[0], b[1]);
        multiply_add(c[i][n + 1], a[i][step], b[2], b[3]);
      }
    }
  }
}

template <int count>
__device__ inline void clear(float (&c)[count][8][4]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) c[i][n][j] = 0.0f;
    }
  }
}

/// This lane's accumulators of a 16x64 product: c[n][0] and c[n][1] are in row accumulator_row(), columns
/// accumulator_column(n) and the next; c[n][2] and c[n][3] are eight rows below.
__device__ inline int accumulator_row() { return lane() / 4; }
__device__ inline int accumulator_column(int n) { return 8 * n + lane() % 4 * 2; }

/// c = value where hidden(row, column) of the 16x64. Only tiles on the diagonal have hidden elements.
template <typename Hidden>
__device__ inline void set_where(float (&c)[8][4], float value, Hidden hidden) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (hidden(accumulator_row() + j / 2 * 8, accumulator_column(n) + j % 2)) c[n][j] = value;
    }
  }
}

/// Stores 16 rows of factor * c, rounded; only those below `length`.
__device__ inline void store_rows(Bf16* to, std::ptrdiff_t stride, int first, int length,
                                  const float (&c)[8][4], float upper_factor, float lower_factor) {
  const int upper = first + accumulator_row(), lower = upper + 8;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const int column = accumulator_column(n);
    if (upper < length)
      *reinterpret_cast<std::uint32_t*>(to + upper * stride + column) =
          narrow_pair(c[n][0] * upper_factor, c[n][1] * upper_factor);
    if (lower < length)
      *reinterpret_cast<std::uint32_t*>(to + lower * stride + column) =
          narrow_pair(c[n][2] * lower_factor, c[n][3] * lower_factor);
  }
}

}  // namespace muster::compute::cuda
