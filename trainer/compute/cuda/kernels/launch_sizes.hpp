// SPDX-License-Identifier: Apache-2.0
// Launch geometry. Tests check that it matches the constants in the .cuh files.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace muster::compute::cuda::sizes {

inline constexpr int widest_row = 2048;
/// Widths of attention heads. Kernels that depend on them exist for each, and Kernel has those in this order.
inline constexpr std::array head_widths{32, 64, 96, 128};
inline constexpr const char* head_widths_text = "32, 64, 96 or 128";
constexpr bool is_head_width(int width) {
  return std::find(head_widths.begin(), head_widths.end(), width) != head_widths.end();
}
inline constexpr int attention_threads = 128, tile_rows = 64;
constexpr int query_rows(int head_width) { return head_width <= 64 ? 128 : 64; }
/// Shared memory of attention: at most 99 KiB, which every GPU of compute capability 8.0 and later has.
constexpr std::size_t tile_bytes(int head_width) {
  return static_cast<std::size_t>(tile_rows * head_width) * 2;
}
constexpr std::size_t attention_forward_bytes(int head_width) {
  return static_cast<std::size_t>(query_rows(head_width) / tile_rows + 4) * tile_bytes(head_width);
}
constexpr std::size_t attention_queries_bytes(int head_width) { return 6 * tile_bytes(head_width); }
constexpr std::size_t attention_keys_bytes(int head_width) { return 6 * tile_bytes(head_width) + 1024; }
inline constexpr int append_threads = 256, decode_threads = 512;
inline constexpr std::size_t decode_bytes = std::size_t{16} * (128 + 2) * sizeof(float);
inline constexpr int norm_threads = 128, norm_warps = 4, norm_columns = 256;
inline constexpr int column_threads = 256, columns_of_block = 256;
inline constexpr std::size_t column_bytes = 8 << 10;
inline constexpr int classifier_threads = 1024, sum_threads = 1024;
inline constexpr int llama_threads = 256, element_threads = 256, norm_sum_threads = 256;
/// Of kernels with a grid-stride loop: enough to fill any GPU.
inline constexpr std::size_t most_element_blocks = 8192;
/// Parts of two-step sums. Fixed, so that the bits depend neither on the number of rows nor on the GPU.
inline constexpr int column_parts = 64, norm_sum_blocks = 1024;
inline constexpr std::size_t sum_bytes = 32 * sizeof(double);

/// Parts of the rows whose sums batch normalization adds up, in blocks of element_threads. They depend on the
/// sizes alone, so that the bits are the same on every GPU.
constexpr std::size_t channel_blocks(std::size_t channels) {
  return (channels + std::size_t{element_threads} - 1) / std::size_t{element_threads};
}
constexpr std::size_t batch_norm_parts(std::size_t rows, std::size_t channels) {
  constexpr std::size_t most_blocks = 1024, rows_of_thread = 16;
  const std::size_t threads = element_threads,
                    rows_of_part = threads / std::min(channels, threads) * rows_of_thread,
                    most = std::max<std::size_t>(most_blocks / channel_blocks(channels), 1);
  return std::clamp<std::size_t>((rows + rows_of_part - 1) / rows_of_part, 1, most);
}
inline constexpr std::size_t batch_norm_parts_bytes = std::size_t{2 * element_threads} * sizeof(float),
                             batch_norm_sums_bytes = std::size_t{2 * element_threads} * sizeof(double);

/// Shared memory of a block of LayerNorm's backward pass.
constexpr std::size_t norm_backward_bytes(int width) {
  const int pieces = (width + norm_columns - 1) / norm_columns;
  return std::size_t{2 * norm_warps * norm_columns} * static_cast<std::size_t>(pieces) * sizeof(float);
}
/// Blocks of LayerNorm's backward pass, parts of a two-step sum too: as many as the 132 multiprocessors of an
/// H100 or H200 run at a time, with four on each, or three where rows are so wide that a fourth has no shared
/// memory. They depend on the width alone, so that the bits are the same on every GPU.
inline constexpr int h100_multiprocessors = 132;
constexpr int norm_backward_blocks(int width) {
  constexpr std::size_t bytes_for_four = 56 << 10;  // and 1 KiB each that CUDA takes, of 228 KiB
  return h100_multiprocessors * (norm_backward_bytes(width) <= bytes_for_four ? 4 : 3);
}

}  // namespace muster::compute::cuda::sizes
