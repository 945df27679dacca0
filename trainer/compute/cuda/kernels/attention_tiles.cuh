// SPDX-License-Identifier: Apache-2.0
// Tiles of 64 rows, as wide as a head, in shared memory, and products with them on tensor cores. Heads are
// 32, 64, 96 or 128 wide; `width` is a template parameter, so that each width has kernels of its own.
#pragma once

#include "compute/cuda/kernels/mma.cuh"

namespace muster::compute::cuda {

constexpr int attention_threads = 128;
constexpr int tile_rows = 64;  ///< keys, or queries, that a block processes at a time
/// 16-byte pieces of a row, and of a tile.
template <int width>
constexpr int pieces = width / 8;
template <int width>
constexpr int tile_size = tile_rows* pieces<width>;
/// This lane's accumulators of 16 rows.
template <int columns>
using Sums = float[columns / 8][4];
/// This lane's part of 16 rows as the first operand of products, in steps of 16 columns.
template <int columns>
using Operand = std::uint32_t[columns / 16][4];
constexpr float log2_e = 1.4426950408889634f;
/// Of scores: 1 / sqrt(width).
template <int width>
constexpr float score_scale = width == 32   ? 0.17677669529663687f
                              : width == 64 ? 0.125f
                              : width == 96 ? 0.10206207261596575f
                                            : 0.08838834764831845f;

/// One head of one sequence in memory.
struct Rows {
  const Bf16* first;
  int stride;  ///< elements from row to row
  int length;  ///< rows
};

/// The layout that all kernels share: qkv and d_qkv [batch, length, heads + 2 * heads / group, width], out
/// and d_out [batch, length, heads, width], log_sum and dots [batch, heads, length]. `group` heads of queries
/// share a head of keys and values.
struct Head {
  std::ptrdiff_t in_qkv, in_out, in_sums;  ///< offsets of its first element
  int key, value;                          ///< offsets of its keys and values from its queries
  int qkv_stride, out_stride;
};
template <int width>
__device__ inline Head find_head(int length, int heads, int head, int group) {
  const int row = heads * width, kv_row = row / group, stride = row + 2 * kv_row;
  const int column = head * width, kv_column = head / group * width;
  const auto sequence = static_cast<std::ptrdiff_t>(blockIdx.z);
  return {sequence * length * stride + column,
          sequence * length * row + column,
          (sequence * heads + head) * length,
          row + kv_column - column,
          row + kv_row + kv_column - column,
          stride,
          row};
}
/// Of a grid with a row of blocks for each head of queries.
template <int width>
__device__ inline Head this_head(int length, int group) {
  return find_head<width>(length, static_cast<int>(gridDim.y), static_cast<int>(blockIdx.y), group);
}

/// XORs a piece's index with its row's, so that the pieces of eight rows lie in different banks. Two rows of
/// 32 or 96 columns begin in the same bank only every second time.
template <int width>
__device__ inline int swizzle(int row, int piece) {
  return row * pieces<width> + (piece ^ (pieces<width> % 8 == 0 ? row & 7 : row >> 1 & 3));
}

/// Starts copying `count` pieces, from number `begin` on, of `rows` rows from `first` on; rows beyond the
/// last are zeros.
template <int width, int rows, int begin, int count>
__device__ inline void begin_pieces(Bf16x8* tile, const Rows& from, int first) {
  constexpr int at_once = attention_threads / count;
  static_assert(at_once % 8 == 0);  // so that all of a thread's pieces have the same index in their rows
  const int row = static_cast<int>(threadIdx.x / unsigned{count});
  const int piece = begin + static_cast<int>(threadIdx.x % unsigned{count});
  Bf16x8* const to = tile + swizzle<width>(row, piece);
  const Bf16* const at = from.first + static_cast<std::ptrdiff_t>(first + row) * from.stride + 8 * piece;
#pragma unroll
  for (int i = 0; i < rows; i += at_once)
    copy_async(to + i * pieces<width>, at + static_cast<std::ptrdiff_t>(i) * from.stride,
               first + row + i < from.length);
}
template <int width, int rows = tile_rows>
__device__ inline void begin_tile(Bf16x8* tile, const Rows& from, int first) {
  if constexpr (width == 96) {  // 128 threads cannot share rows of 12 pieces evenly
    begin_pieces<width, rows, 0, 8>(tile, from, first);
    begin_pieces<width, rows, 8, 4>(tile, from, first);
  } else {
    begin_pieces<width, rows, 0, pieces<width>>(tile, from, first);
  }
}

/// Two arrays of tiles, double-buffered: each pair of tiles is used while the next is copied.
struct TilePair {
  Bf16x8 *first, *second;
  Rows first_rows, second_rows;
};
template <int width>
__device__ inline void begin_tiles(const TilePair& pair, int tile) {
  const int at = tile % 2 * tile_size<width>;
  begin_tile<width>(pair.first + at, pair.first_rows, tile * tile_rows);
  begin_tile<width>(pair.second + at, pair.second_rows, tile * tile_rows);
}
/// Starts copying the tiles after number `tile` of `tiles` and waits for that one. Returns its offset.
template <int width>
__device__ inline int next_tiles(const TilePair& pair, int tile, int tiles) {
  if (tile + 1 < tiles) begin_tiles<width>(pair, tile + 1);
  end_copies();
  await_copies<1>();
  __syncthreads();
  return tile % 2 * tile_size<width>;
}

/// Columns 16 * step … 16 * step + 15 of 16 rows of a tile, from `row` on, as the first operand.
template <int width>
__device__ inline void load_step(std::uint32_t (&to)[4], const Bf16x8* tile, int row, int step) {
  load_matrices(to, tile + swizzle<width>(row + lane() % 16, 2 * step + lane() / 16));
}
template <int width>
__device__ inline void load_operand(Operand<width>& to, const Bf16x8* tile, int row) {
#pragma unroll
  for (int step = 0; step < width / 16; ++step) load_step<width>(to[step], tile, row, step);
}

/// Accumulators of 16x64, rounded, as the first operand of the next product.
__device__ inline void round_operand(Operand<tile_rows>& to, const Sums<tile_rows>& from) {
#pragma unroll
  for (int step = 0; step < tile_rows / 16; ++step) {
    to[step][0] = narrow_pair(from[2 * step][0], from[2 * step][1]);
    to[step][1] = narrow_pair(from[2 * step][2], from[2 * step][3]);
    to[step][2] = narrow_pair(from[2 * step + 1][0], from[2 * step + 1][1]);
    to[step][3] = narrow_pair(from[2 * step + 1][2], from[2 * step + 1][3]);
  }
}

/// c[16, 64] += a's step `a_step`·tile^T, `count` times, with the tile's columns 16 * step … 16 * step + 15.
template <int width, int count, int a_steps>
__device__ inline void multiply_step(Sums<tile_rows> (&c)[count], const std::uint32_t (&a)[count][a_steps][4],
                                     int a_step, const Bf16x8* tile, int step) {
  const int row = lane() % 8 + lane() / 16 * 8, piece = lane() / 8 % 2;
#pragma unroll
  for (int n = 0; n < tile_rows / 8; n += 2) {
    std::uint32_t b[4];
    load_matrices(b, tile + swizzle<width>(8 * n + row, 2 * step + piece));
#pragma unroll
    for (int i = 0; i < count; ++i) {
      multiply_add(c[i][n], a[i][a_step], b[0], b[1]);
      multiply_add(c[i][n + 1], a[i][a_step], b[2], b[3]);
    }
  }
}

/// c[16, 64] += a[16, width]·tile^T, `count` times.
template <int width, int count>
__device__ inline void multiply_by_rows(Sums<tile_rows> (&c)[count], const Operand<width> (&a)[count],
                                        const Bf16x8* tile) {
#pragma unroll
  for (int step = 0; step < width / 16; ++step) multiply_step<width>(c, a, step, tile, step);
}

/// c[16, width] += a[16, 64]·tile, `count` times.
template <int width, int count>
__device__ inline void multiply_by_tile(Sums<width> (&c)[count], const Operand<tile_rows> (&a)[count],
                                        const Bf16x8* tile) {
#pragma unroll
  for (int step = 0; step < tile_rows / 16; ++step) {
#pragma unroll
    for (int n = 0; n < width / 8; n += 2) {
      std::uint32_t b[4];
      load_matrices_transposed(b, tile + swizzle<width>(16 * step + lane() % 16, n + lane() / 16));
#pragma unroll
      for (int i = 0; i < count; ++i) {
        multiply_add(c[i][n], a[i][step], b[0], b[1]);
        multiply_add(c[i][n + 1], a[i][step], b[2], b[3]);
      }
    }
  }
}

template <int count, int eights>
__device__ inline void clear(float (&c)[count][eights][4]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int n = 0; n < eights; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) c[i][n][j] = 0.0f;
    }
  }
}

/// This lane's accumulators of a product of 16 rows: c[n][0] and c[n][1] are in row accumulator_row(),
/// columns accumulator_column(n) and the next; c[n][2] and c[n][3] are eight rows below.
__device__ inline int accumulator_row() { return lane() / 4; }
__device__ inline int accumulator_column(int n) { return 8 * n + lane() % 4 * 2; }

/// c = value where hidden(row, column) of the 16x64. Only tiles on the diagonal have hidden elements.
template <typename Hidden>
__device__ inline void set_where(Sums<tile_rows>& c, float value, Hidden hidden) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (hidden(accumulator_row() + j / 2 * 8, accumulator_column(n) + j % 2)) c[n][j] = value;
    }
  }
}

/// Stores 16 rows of factor * c, rounded; only those below `length`.
template <int eights>
__device__ inline void store_rows(Bf16* to, std::ptrdiff_t stride, int first, int length,
                                  const float (&c)[eights][4], float upper_factor, float lower_factor) {
  const int upper = first + accumulator_row(), lower = upper + 8;
#pragma unroll
  for (int n = 0; n < eights; ++n) {
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
