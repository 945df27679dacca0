// SPDX-License-Identifier: Apache-2.0
// LayerNorm and RMSNorm of the residual stream's rows in float, one warp for each, to rows in bfloat16.
#pragma once

#include "compute/cuda/kernels/mma.cuh"

namespace muster::compute::cuda {

constexpr int norm_threads = 128;
constexpr int norm_warps = norm_threads / warp_size;
/// Maximum pieces of eight elements of a row in one lane's registers: widths up to 2048.
constexpr int norm_pieces = 8;
constexpr int piece_columns = 8 * warp_size;  ///< of one piece of every lane
constexpr float norm_epsilon = 1e-5f;

/// Calls use(column, elements) for this lane's pieces of a row.
template <typename Use>
__device__ inline void for_each_piece(int width, const float (&row)[norm_pieces][8], Use use) {
#pragma unroll
  for (int piece = 0; piece < norm_pieces; ++piece) {
    const int column = piece * piece_columns + 8 * lane();
    if (column < width) use(column, row[piece]);
  }
}

/// row += addend, also written to `sum`.
__device__ inline void add_to_row(int width, float (&row)[norm_pieces][8], const Bf16* addend, float* sum) {
  Bf16x8 right[norm_pieces];
#pragma unroll
  for (int piece = 0; piece < norm_pieces; ++piece) {
    const int column = piece * piece_columns + 8 * lane();
    if (column < width) right[piece] = load_packed(addend + column);
  }
#pragma unroll
  for (int piece = 0; piece < norm_pieces; ++piece) {
    const int column = piece * piece_columns + 8 * lane();
    if (column >= width) continue;
    float added[8];
    to_floats(right[piece], added);
#pragma unroll
    for (int i = 0; i < 8; ++i) row[piece][i] += added[i];
    store_eight(sum + column, row[piece]);
  }
}

/// `centered`: LayerNorm, else RMSNorm, which takes no mean and has no bias.
template <bool centered>
__device__ inline void normalize_row(int rows, int width, const float* x, const Bf16* addend, float* sum,
                                     const Bf16* gain, const Bf16* bias, Bf16* out, float* mean, float* rstd,
                                     float epsilon) {
  const int row = static_cast<int>(blockIdx.x) * norm_warps + warp();
  if (row >= rows) return;
  const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * width;
  // All loads are issued before the first use.
  float kept[norm_pieces][8];
#pragma unroll
  for (int piece = 0; piece < norm_pieces; ++piece) {
    const int column = piece * piece_columns + 8 * lane();
    if (column < width) load_eight(x + at + column, kept[piece]);
  }
  if (addend != nullptr) add_to_row(width, kept, addend + at, sum + at);
  float total = 0;
  for_each_piece(width, kept, [&](int, const float(&part)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) total += part[i];
  });
  const float average = centered ? sum_of_warp(total) / static_cast<float>(width) : 0.0f;
  float squares = 0;
  for_each_piece(width, kept, [&](int, const float(&part)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) squares += (part[i] - average) * (part[i] - average);
  });
  const float scale = 1.0f / sqrtf(sum_of_warp(squares) / static_cast<float>(width) + epsilon);
  for_each_piece(width, kept, [&](int column, const float(&part)[8]) {
    float g[8], b[8] = {};
    load_eight(gain + column, g);
    if constexpr (centered) load_eight(bias + column, b);
#pragma unroll
    for (int i = 0; i < 8; ++i) g[i] = (part[i] - average) * scale * g[i] + b[i];
    store_eight(out + at + column, g);
  });
  if (lane() == 0) {
    if constexpr (centered) mean[row] = average;
    rstd[row] = scale;
  }
}

/// norm_warps rows per block, one per warp. sum = x + addend unless addend is null.
extern "C" __global__ void __launch_bounds__(norm_threads)
    muster_layer_norm(int rows, int width, const float* x, const Bf16* addend, float* sum, const Bf16* gain,
                      const Bf16* bias, Bf16* out, float* mean, float* rstd) {
  normalize_row<true>(rows, width, x, addend, sum, gain, bias, out, mean, rstd, norm_epsilon);
}
extern "C" __global__ void __launch_bounds__(norm_threads)
    muster_rms_norm(int rows, int width, const float* x, const Bf16* addend, float* sum, const Bf16* gain,
                    Bf16* out, float* rstd, float epsilon) {
  normalize_row<false>(rows, width, x, addend, sum, gain, nullptr, out, nullptr, rstd, epsilon);
}

/// One row of the backward pass: adds to d_x, writes the result to `rounded` too unless it is null, and adds
/// to this lane's parts of d gain and d bias in `sums` [gain or bias][piece][element][lane]; RMSNorm has
/// gains only.
template <bool centered>
__device__ inline void norm_row_backward(int width, int pieces, const float* x, const Bf16* gain,
                                         float average, float scale, const Bf16* d_out, float* d_x,
                                         Bf16* rounded, float* sums) {
  // The loads of x and d_out are issued before the first use. Only the loaded values stay in registers:
  // derived values are cheap to compute again. For d_x there are no registers left.
  FloatVector of_x[norm_pieces];
  Bf16x8 of_d_out[norm_pieces];
#pragma unroll
  for (int piece = 0; piece < norm_pieces; ++piece) {
    const int column = piece * piece_columns + 8 * lane();
    if (column >= width) continue;
    of_x[piece] = load_packed(x + column);
    of_d_out[piece] = load_packed(d_out + column);
  }
  // The normalized x, and d out.
  const auto widen_piece = [&](int piece, float(&hat)[8], float(&d)[8]) {
    to_floats(of_x[piece], hat);
    to_floats(of_d_out[piece], d);
#pragma unroll
    for (int i = 0; i < 8; ++i) hat[i] = (hat[i] - average) * scale;
  };
  float total = 0, dot = 0;
#pragma unroll
  for (int piece = 0; piece < norm_pieces; ++piece) {
    const int column = piece * piece_columns + 8 * lane();
    if (column >= width) continue;
    float g[8], hat[8], d[8];
    load_eight(gain + column, g);
    widen_piece(piece, hat, d);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float* const d_gain = sums + (piece * 8 + i) * warp_size + lane();
      *d_gain += d[i] * hat[i];
      if constexpr (centered) {
        d_gain[pieces * piece_columns] += d[i];
        total += d[i] * g[i];
      }
      dot += d[i] * g[i] * hat[i];
    }
  }
  if constexpr (centered) total = sum_of_warp(total) / static_cast<float>(width);
  dot = sum_of_warp(dot) / static_cast<float>(width);
#pragma unroll
  for (int piece = 0; piece < norm_pieces; ++piece) {
    const int column = piece * piece_columns + 8 * lane();
    if (column >= width) continue;
    float g[8], hat[8], d[8], grown[8];
    load_eight(gain + column, g);
    widen_piece(piece, hat, d);
    load_eight(d_x + column, grown);
#pragma unroll
    for (int i = 0; i < 8; ++i) grown[i] += (d[i] * g[i] - total - hat[i] * dot) * scale;
    store_eight(d_x + column, grown);
    if (rounded != nullptr) store_eight(rounded + column, grown);
  }
}

/// d_x += d norm / d x, and a block's share of d gain and d bias.
template <bool centered>
__device__ inline void norm_backward(unsigned char* shared, int rows, int width, const float* x,
                                     const Bf16* gain, const float* mean, const float* rstd,
                                     const Bf16* d_out, float* d_x, Bf16* rounded, float* partial) {
  constexpr int sums = centered ? 2 : 1;
  const int pieces = (width + piece_columns - 1) / piece_columns;
  const int size = sums * pieces * piece_columns;
  float* const all = reinterpret_cast<float*>(shared);
  float* const own = all + warp() * size;
  for (int i = lane(); i < size; i += warp_size) own[i] = 0.0f;
  __syncwarp();
  for (int row = static_cast<int>(blockIdx.x) * norm_warps + warp(); row < rows;
       row += static_cast<int>(gridDim.x) * norm_warps) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * width;
    norm_row_backward<centered>(width, pieces, x + at, gain, centered ? mean[row] : 0.0f, rstd[row],
                                d_out + at, d_x + at, rounded == nullptr ? nullptr : rounded + at, own);
  }
  __syncthreads();
  float* const to = partial + static_cast<std::ptrdiff_t>(blockIdx.x) * sums * width;
  for (int i = static_cast<int>(threadIdx.x); i < sums * width; i += norm_threads) {
    const int column = i % width, within = column % piece_columns;
    const int at = i / width * pieces * piece_columns + column / piece_columns * piece_columns +
                   within % 8 * warp_size + within / 8;
    float total = 0;
    for (int w = 0; w < norm_warps; ++w) total += all[w * size + at];
    to[i] = total;
  }
}

/// partial: [blocks, 2, width], each block's share of d gain and d bias. Shared memory:
/// norm_backward_bytes(width).
extern "C" __global__ void __launch_bounds__(norm_threads, 4)
    muster_layer_norm_backward(int rows, int width, const float* x, const Bf16* gain, const float* mean,
                               const float* rstd, const Bf16* d_out, float* d_x, Bf16* rounded,
                               float* partial) {
  MUSTER_SHARED_BYTES(shared);
  norm_backward<true>(shared, rows, width, x, gain, mean, rstd, d_out, d_x, rounded, partial);
}
/// partial: [blocks, width]. Shared memory: at least half of norm_backward_bytes(width).
extern "C" __global__ void __launch_bounds__(norm_threads, 4)
    muster_rms_norm_backward(int rows, int width, const float* x, const Bf16* gain, const float* rstd,
                             const Bf16* d_out, float* d_x, Bf16* rounded, float* partial) {
  MUSTER_SHARED_BYTES(shared);
  norm_backward<false>(shared, rows, width, x, gain, nullptr, rstd, d_out, d_x, rounded, partial);
}

}  // namespace muster::compute::cuda
