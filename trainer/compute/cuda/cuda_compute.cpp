// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda_compute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compute/cuda/launch_sizes.hpp"
#include "muster/error.hpp"

namespace muster::compute::cuda {
namespace {

using namespace sizes;

std::size_t blocks(std::size_t count, std::size_t each) { return (count + each - 1) / each; }
std::size_t elements(int rows, int width) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
}
/// For kernels with a grid-stride loop: enough blocks to fill any GPU.
std::size_t grid_stride_blocks(std::size_t groups) {
  return std::min<std::size_t>(blocks(groups, element_threads), 8192);
}

void require(bool fine, const std::string& what) {
  if (!fine) throw Error(ErrorCode::usage, what + ": pass --device=cpu");
}

[[noreturn]] void throw_images_unsupported() {
  throw Error(ErrorCode::usage, "the GPU trains GPTs only: pass --device=cpu for image models");
}

}  // namespace

float* CudaCompute::scratch(Arena<float>& arena, std::size_t count) {
  if (arena.size() < count) {
    arena = {};
    arena = Arena<float>(count, gpu_);
  }
  return arena.data();
}

std::string CudaCompute::describe() const {
  return fmt::format("cuda ({}, cuBLASLt {}, own kernels)", gpu_.name(), matmul_->version());
}

void CudaCompute::multiply(const CublasMatmulShape& shape, const CublasMatmulOperands& operands) {
  if (matmul_->multiply(shape, operands)) return;
  throw Error(ErrorCode::device, fmt::format("cuBLASLt {} has no algorithm for a product of {} x {} x {}",
                                             matmul_->version(), shape.m, shape.n, shape.k));
}

void CudaCompute::matmul(const MatmulShape& s, const bfloat16* a, const bfloat16* b, const bfloat16* bias,
                         bfloat16* c) {
  multiply({s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.accumulate, false,
            s.bias ? Epilogue::bias : Epilogue::none},
           {a, b, c, const_cast<bfloat16*>(s.bias ? bias : nullptr), nullptr});
}

void CudaCompute::weight_gradient(int rows, int from, int to, const bfloat16* input, const bfloat16* d_out,
                                  float* d_weight, float* d_bias) {
  CublasMatmulShape shape{to, from, rows, true, false, false, true, Epilogue::bias_gradient};
  if (d_bias != nullptr) {
    if (options_.fuse && matmul_->multiply(shape, {d_out, input, d_weight, d_bias, nullptr})) return;
    column_sums(d_out, d_bias, rows, to);
  }
  shape.epilogue = Epilogue::none;
  multiply(shape, {d_out, input, d_weight, nullptr, nullptr});
}

void CudaCompute::matmul_gelu(int rows, int from, int to, const bfloat16* input, const bfloat16* weight,
                              const bfloat16* bias, bfloat16* wide, bfloat16* out) {
  const CublasMatmulShape shape{rows, to, from, false, true, false, false, Epilogue::bias_gelu};
  if (options_.fuse && matmul_->multiply(shape, {input, weight, out, const_cast<bfloat16*>(bias), wide}))
    return;
  Compute::matmul_gelu(rows, from, to, input, weight, bias, wide, out);
}

void CudaCompute::matmul_gelu_backward(int rows, int from, int to, const bfloat16* d_out,
                                       const bfloat16* weight, const bfloat16* wide, bfloat16* d_wide) {
  const CublasMatmulShape shape{rows, from, to, false, false, false, false, Epilogue::gelu_backward};
  if (options_.fuse &&
      matmul_->multiply(shape, {d_out, weight, d_wide, nullptr, const_cast<bfloat16*>(wide)}))
    return;
  Compute::matmul_gelu_backward(rows, from, to, d_out, weight, wide, d_wide);
}

void CudaCompute::column_sums(const bfloat16* x, float* out, int rows, int width) {
  float* const partial = scratch(partial_, elements(column_parts, width));
  gpu_.launch(Kernel::column_parts, {blocks(elements(1, width), columns_of_block), column_parts},
              column_threads, column_bytes, rows, width, x, partial);
  float* const none = nullptr;
  gpu_.launch(Kernel::sum_parts, {blocks(elements(1, width), 32)}, column_threads, column_bytes, column_parts,
              width, width, static_cast<const float*>(partial), out, none);
}

void CudaCompute::embed(const Token* tokens, const bfloat16* token_table, const bfloat16* position_table,
                        bfloat16* out, int batch, int length, int width) {
  require(width % 8 == 0, fmt::format("on a GPU the width is a multiple of 8, and --width is {}", width));
  const int rows = batch * length;
  const void* const on_device = tokens_.send(tokens, static_cast<std::size_t>(rows) * sizeof(Token));
  gpu_.launch(Kernel::embed, {blocks(elements(rows, width) / 8, 256)}, 256, 0, rows, length, width, on_device,
              token_table, position_table, out);
}

void CudaCompute::embed_backward(const Token* tokens, const bfloat16* d_out, float* d_token_table,
                                 float* d_position_table, int batch, int length, int positions, int width) {
  token_sort_index_.sort(tokens, static_cast<std::size_t>(batch) * static_cast<std::size_t>(length));
  const auto& distinct = token_sort_index_.distinct;
  const auto &begins = token_sort_index_.begins, &order = token_sort_index_.order;
  // begins, order, distinct: side by side, so that each is aligned.
  const std::size_t begins_bytes = begins.size() * sizeof begins[0],
                    order_bytes = order.size() * sizeof order[0];
  order_bytes_.resize(begins_bytes + order_bytes + distinct.size() * sizeof distinct[0]);
  std::memcpy(order_bytes_.data(), begins.data(), begins_bytes);
  std::memcpy(order_bytes_.data() + begins_bytes, order.data(), order_bytes);
  std::memcpy(order_bytes_.data() + begins_bytes + order_bytes, distinct.data(),
              distinct.size() * sizeof distinct[0]);
  // Reserve memory for rows that are all distinct, so that later steps need no more.
  const std::size_t rows = order.size();
  const auto* const on_device = static_cast<const std::byte*>(
      order_.send(order_bytes_.data(), order_bytes_.size(),
                  (rows + 1) * sizeof begins[0] + rows * (sizeof order[0] + sizeof distinct[0])));
  gpu_.launch(Kernel::embed_tokens_backward, {distinct.size(), blocks(elements(1, width), columns_of_block)},
              column_threads, column_bytes, width, on_device + begins_bytes + order_bytes, on_device,
              on_device + begins_bytes, d_out, d_token_table);
  gpu_.clear(d_position_table, elements(positions, width) * sizeof(float));
  gpu_.launch(Kernel::embed_positions_backward, {blocks(elements(length, width) / 8, 256)}, 256, 0, batch,
              length, width, d_out, d_position_table);
}

void CudaCompute::layer_norm(const bfloat16* x, const bfloat16* addend, bfloat16* sum, const bfloat16* gain,
                             const bfloat16* bias, bfloat16* out, float* mean, float* rstd, int rows,
                             int width) {
  require(width % 8 == 0 && width <= widest_row,
          fmt::format("on a GPU rows are at most {} wide, and --width is {}", widest_row, width));
  gpu_.launch(Kernel::layer_norm, {blocks(elements(rows, 1), norm_warps)}, norm_threads, 0, rows, width, x,
              addend, sum, gain, bias, out, mean, rstd);
}

void CudaCompute::layer_norm_backward(const bfloat16* x, const bfloat16* gain, const float* mean,
                                      const float* rstd, const bfloat16* d_out, bfloat16* d_x, float* d_gain,
                                      float* d_bias, int rows, int width) {
  float* const partial = scratch(partial_, elements(norm_backward_blocks, 2 * width));
  const std::size_t pieces = blocks(elements(1, width), norm_columns);
  gpu_.launch(Kernel::layer_norm_backward, {norm_backward_blocks}, norm_threads,
              norm_warps * 2 * pieces * norm_columns * sizeof(float), rows, width, x, gain, mean, rstd, d_out,
              d_x, partial);
  gpu_.launch(Kernel::sum_parts, {blocks(elements(2, width), 32)}, column_threads, column_bytes,
              norm_backward_blocks, 2 * width, width, static_cast<const float*>(partial), d_gain, d_bias);
}

void CudaCompute::gelu(const bfloat16* x, bfloat16* out, std::size_t count) {
  gpu_.launch(Kernel::gelu, {grid_stride_blocks(count / 8)}, element_threads, 0, count, x, out);
}

void CudaCompute::gelu_backward(const bfloat16* x, bfloat16* d_inout, std::size_t count) {
  gpu_.launch(Kernel::gelu_backward, {grid_stride_blocks(count / 8)}, element_threads, 0, count, x, d_inout);
}

void CudaCompute::fill_zero(bfloat16* x, std::size_t count) { gpu_.clear(x, count * sizeof(bfloat16)); }

void CudaCompute::attention(const AttentionShape& s, const bfloat16* qkv, bfloat16* out, float* log_sum) {
  require(s.width == s.heads * head_width,
          fmt::format("on a GPU attention heads are {} wide, and {} of --heads {} of --width {}", head_width,
                      s.heads > 0 ? s.width / s.heads : 0, s.heads, s.width));
  const auto length = static_cast<std::size_t>(s.length);
  gpu_.launch(
      Kernel::attention,
      {blocks(length, query_rows), static_cast<std::size_t>(s.heads), static_cast<std::size_t>(s.batch)},
      attention_threads, attention_forward_bytes, s.length, qkv, out, log_sum);
}

void CudaCompute::attention_backward(const AttentionShape& s, const bfloat16* qkv, const bfloat16* out,
                                     const float* log_sum, const bfloat16* d_out, bfloat16* d_qkv) {
  float* const dots = scratch(dots_, elements(s.batch * s.length, s.heads));
  const Grid grid{blocks(static_cast<std::size_t>(s.length), tile_rows), static_cast<std::size_t>(s.heads),
                  static_cast<std::size_t>(s.batch)};
  gpu_.launch(Kernel::attention_queries_backward, grid, attention_threads, attention_queries_bytes, s.length,
              qkv, out, log_sum, d_out, d_qkv, dots);
  gpu_.launch(Kernel::attention_keys_backward, grid, attention_threads, attention_keys_bytes, s.length, qkv,
              log_sum, d_out, static_cast<const float*>(dots), d_qkv);
}

void CudaCompute::unfold(const ConvolutionShape&, const bfloat16*, bfloat16*) { throw_images_unsupported(); }
void CudaCompute::fold(const ConvolutionShape&, const bfloat16*, bfloat16*) { throw_images_unsupported(); }
void CudaCompute::max_pool_relu(const PoolShape&, const bfloat16*, const bfloat16*, bfloat16*) {
  throw_images_unsupported();
}
void CudaCompute::max_pool_relu_backward(const PoolShape&, const bfloat16*, const bfloat16*, const bfloat16*,
                                         const bfloat16*, bfloat16*) {
  throw_images_unsupported();
}
void CudaCompute::relu(const bfloat16*, const bfloat16*, bfloat16*, std::size_t) {
  throw_images_unsupported();
}
void CudaCompute::relu_backward(const bfloat16*, const bfloat16*, bfloat16*, std::size_t) {
  throw_images_unsupported();
}
std::int64_t CudaCompute::count_correct(const bfloat16*, const Token*, int, int) {
  throw_images_unsupported();
}

}  // namespace muster::compute::cuda
