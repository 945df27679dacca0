// SPDX-License-Identifier: Apache-2.0
// Sums over rows, in two steps and a fixed order.
#pragma once

#include "compute/cuda/kernels/mma.cuh"

namespace muster::compute::cuda {

constexpr int column_threads = 256;
constexpr int column_warps = column_threads / warp_size;
constexpr std::size_t column_sums_bytes = column_warps * 8 * warp_size * sizeof(float);

/// Adds rows row_of(i) of x [.., width] for i = begin, begin + step, … below `end`, in this order. `at_once`
/// rows are loaded at a time; a kernel's __launch_bounds__ must leave the registers for them.
template <std::uint32_t at_once, typename Element, typename RowOf>
__device__ inline void add_rows(float (&sums)[8], const Element* x, int width, std::uint32_t begin,
                                std::uint32_t end, std::uint32_t step, RowOf row_of) {
  for (std::uint32_t i = begin; i < end; i += at_once * step) {
    std::uint32_t rows[at_once] = {};
    decltype(load_packed(x)) of_rows[at_once] = {};  // rows from `end` on are zeros
#pragma unroll
    for (std::uint32_t k = 0; k < at_once; ++k) {
      if (i + k * step < end) rows[k] = row_of(i + k * step);
    }
#pragma unroll
    for (std::uint32_t k = 0; k < at_once; ++k) {
      if (i + k * step < end) of_rows[k] = load_packed(x + rows[k] * static_cast<std::size_t>(width));
    }
#pragma unroll
    for (const auto& of_row : of_rows) {
      float part[8];
      to_floats(of_row, part);
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[j] += part[j];
    }
  }
}

/// partial[part, column] = sum of the part's rows of x. Grid: (blocks of 256 columns, parts).
extern "C" __global__ void __launch_bounds__(column_threads, 4)
    muster_column_parts(int rows, int width, const Bf16* x, float* partial) {
  MUSTER_SHARED_BYTES(shared);
  float* const all = reinterpret_cast<float*>(shared);
  const int column = static_cast<int>(blockIdx.x) * 8 * warp_size + 8 * lane();
  float sums[8] = {};
  if (column < width) {
    add_rows<8>(sums, x + column, width, blockIdx.y * unsigned{column_warps} + static_cast<unsigned>(warp()),
                static_cast<unsigned>(rows), column_warps * gridDim.y, [](std::uint32_t row) { return row; });
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) all[(warp() * 8 + i) * warp_size + lane()] = sums[i];
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x), to = static_cast<int>(blockIdx.x) * 8 * warp_size + mine;
  if (to >= width) return;
  float total = 0;
  for (int w = 0; w < column_warps; ++w) total += all[(w * 8 + mine % 8) * warp_size + mine / 8];
  partial[static_cast<std::ptrdiff_t>(blockIdx.y) * width + to] = total;
}

/// out[column] = sum over parts of partial[part, column]; columns from `split` on go to `rest`. Grid: blocks
/// of 32 columns; eight threads share a column.
extern "C" __global__ void __launch_bounds__(column_threads)
    muster_sum_parts(int parts, int width, int split, const float* partial, float* out, float* rest) {
  MUSTER_SHARED_BYTES(shared);
  float* const all = reinterpret_cast<float*>(shared);
  const int column = static_cast<int>(blockIdx.x) * warp_size + lane();
  float total = 0;
  if (column < width) {
    for (int part = warp(); part < parts; part += column_warps)
      total += partial[static_cast<std::ptrdiff_t>(part) * width + column];
  }
  all[threadIdx.x] = total;
  __syncthreads();
  if (warp() != 0 || column >= width) return;
  total = 0;
  for (int w = 0; w < column_warps; ++w) total += all[w * warp_size + lane()];
  if (column < split) {
    out[column] = total;
  } else {
    rest[column - split] = total;
  }
}

}  // namespace muster::compute::cuda
