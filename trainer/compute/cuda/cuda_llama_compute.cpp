// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda_llama_compute.hpp"

#include <fmt/format.h>

#include "compute/cuda/cuda_compute.hpp"
#include "compute/cuda/geometry.hpp"
#include "compute/cuda/kernels/launch_sizes.hpp"

namespace muster::compute::cuda {

using namespace sizes;

namespace {

/// Blocks of threads that move eight elements each.
Grid blocks_of_eights(std::size_t count) { return {(count / 8 + llama_threads - 1) / llama_threads}; }

}  // namespace

void CudaLlamaCompute::embed(const Token* tokens, const bfloat16* token_table, float* out, int rows,
                             int width) {
  compute_.embed(tokens, token_table, nullptr, out, 1, rows, width);
}

void CudaLlamaCompute::embed_backward(const Token* tokens, const float* d_out, float* d_token_table, int rows,
                                      int width) {
  compute_.embed_backward(tokens, d_out, d_token_table, nullptr, 1, rows, 0, width);
}

void CudaLlamaCompute::clear(float* gradient, std::size_t count) {
  compute_.gpu().clear(gradient, count * sizeof(float));
}

void CudaLlamaCompute::rms_norm(const float* x, const bfloat16* addend, float* sum, const bfloat16* gain,
                                bfloat16* out, float* rstd, int rows, int width, double epsilon) {
  require(width % 8 == 0 && width <= widest_row,
          fmt::format("on a GPU rows are at most {} wide, and --width is {}", widest_row, width));
  const std::size_t blocks = (static_cast<std::size_t>(rows) + norm_warps - 1) / norm_warps;
  compute_.gpu().launch(Kernel::rms_norm, {blocks}, norm_threads, 0, rows, width, x, addend, sum, gain, out,
                        rstd, static_cast<float>(epsilon));
}

void CudaLlamaCompute::rms_norm_backward(const float* x, const bfloat16* gain, const float* rstd,
                                         const bfloat16* d_out, float* d_x, bfloat16* rounded, float* d_gain,
                                         int rows, int width) {
  const int parts = norm_backward_blocks(width);
  float* const partial = compute_.scratch(partial_, elements(parts, width));
  float* const none = nullptr;
  compute_.gpu().launch(Kernel::rms_norm_backward, {static_cast<std::size_t>(parts)}, norm_threads,
                        norm_backward_bytes(width), rows, width, x, gain, rstd, d_out, d_x, rounded, partial);
  compute_.gpu().launch(Kernel::sum_parts, {(elements(1, width) + 31) / 32}, column_threads, column_bytes,
                        parts, width, width, static_cast<const float*>(partial), d_gain, none);
}

void CudaLlamaCompute::rotate(const RotaryShape& s, const float* table, bfloat16* x, bool back) {
  const std::size_t pairs = elements(s.rows, s.heads) * static_cast<std::size_t>(s.head_width / 2);
  compute_.gpu().launch(kernel_for_heads(Kernel::rotate_32, s.head_width), blocks_of_eights(pairs),
                        llama_threads, 0, s.rows, s.length, s.heads, s.row_width,
                        table + elements(s.first, s.head_width), back ? -1.0F : 1.0F, x);
}

void CudaLlamaCompute::swiglu(const bfloat16* gate_up, bfloat16* out, int rows, int width) {
  require(width % 8 == 0,
          fmt::format("on a GPU the MLP's width is a multiple of 8, and --mlp-width is {}", width));
  compute_.gpu().launch(Kernel::swiglu, blocks_of_eights(elements(rows, width)), llama_threads, 0, rows,
                        width, gate_up, out);
}

void CudaLlamaCompute::swiglu_backward(const bfloat16* gate_up, const bfloat16* d_out, bfloat16* d_gate_up,
                                       int rows, int width) {
  compute_.gpu().launch(Kernel::swiglu_backward, blocks_of_eights(elements(rows, width)), llama_threads, 0,
                        rows, width, gate_up, d_out, d_gate_up);
}

}  // namespace muster::compute::cuda
