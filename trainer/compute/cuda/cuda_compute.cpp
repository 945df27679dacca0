// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda_compute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compute/cuda/geometry.hpp"
#include "compute/cuda/kernels/launch_sizes.hpp"

namespace muster::compute::cuda {

using namespace sizes;

namespace {

std::size_t blocks(std::size_t count, std::size_t each) { return (count + each - 1) / each; }
/// For kernels with a grid-stride loop.
std::size_t grid_stride_blocks(std::size_t groups) {
  return std::min<std::size_t>(blocks(groups, element_threads), most_element_blocks);
}

std::size_t update_blocks(std::size_t count) {
  return std::min<std::size_t>((count / 4 + element_threads) / element_threads, most_element_blocks);
}

/// Blocks of `rows` rows of each sequence and head.
Grid attention_grid(const AttentionShape& s, int rows, int heads) {
  return {blocks(static_cast<std::size_t>(s.length), static_cast<std::size_t>(rows)),
          static_cast<std::size_t>(heads), static_cast<std::size_t>(s.batch)};
}

}  // namespace

/// A step's results on the device, contiguous, so that one copy transfers them.
struct CudaCompute::StepState {
  double loss = 0;     ///< of the last cross-entropy
  double squares = 0;  ///< the last sum_of_squares()
  Decision decision;
  float not_finite = 0;  ///< of the current chunk
  float slots[reduced_scalar_count] = {};
};

CudaCompute::CudaCompute(const Options& options)
    : options_(options),
      gpu_(options.wait_limit),
      matmul_(std::make_unique<CublasMatmul>(gpu_)),
      squares_(norm_sum_blocks, gpu_),
      step_(sizeof(StepState), gpu_) {
  gpu_.driver().require(gpu_.driver().stream_create(&outcome_stream_, CU_STREAM_NON_BLOCKING), "no stream");
}

CudaCompute::~CudaCompute() {
  if (gpu_.is_hung()) return;
  // running work may still write to memory that is freed below
  gpu_.driver().stream_synchronize(gpu_.stream());
  gpu_.driver().stream_destroy(outcome_stream_);
}

CudaCompute::StepState* CudaCompute::device_state() { return reinterpret_cast<StepState*>(step_.data()); }

ImageCompute<bfloat16>* CudaCompute::images() {
  if (!images_) images_ = std::make_unique<CudaImageCompute>(*this);
  return images_.get();
}

std::string CudaCompute::describe() const {
  return fmt::format("cuda ({}, cuBLASLt {}, {}own kernels)", gpu_.name(), matmul_->version(),
                     images_ ? fmt::format("cuDNN {}, ", images_->version()) : "");
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
  const CublasMatmulShape shape{to, from, rows, true, false, false, true, Epilogue::none};
  const auto separate = [&] {
    if (d_bias != nullptr) column_sums(d_out, d_bias, rows, to);
    multiply(shape, {d_out, input, d_weight, nullptr, nullptr});
  };
  if (!options_.fuse || d_bias == nullptr) return separate();
  CublasMatmulShape fused = shape;
  fused.epilogue = Epilogue::bias_gradient;
  matmul_->multiply_or(fused, {d_out, input, d_weight, d_bias, nullptr}, separate);
}

void CudaCompute::matmul_gelu(int rows, int from, int to, const bfloat16* input, const bfloat16* weight,
                              const bfloat16* bias, bfloat16* wide, bfloat16* out) {
  const auto separate = [&] { Compute::matmul_gelu(rows, from, to, input, weight, bias, wide, out); };
  if (!options_.fuse) return separate();
  matmul_->multiply_or({rows, to, from, false, true, false, false, Epilogue::bias_gelu},
                       {input, weight, out, const_cast<bfloat16*>(bias), wide}, separate);
}

void CudaCompute::matmul_gelu_backward(int rows, int from, int to, const bfloat16* d_out,
                                       const bfloat16* weight, const bfloat16* wide, bfloat16* d_wide) {
  const auto separate = [&] { Compute::matmul_gelu_backward(rows, from, to, d_out, weight, wide, d_wide); };
  if (!options_.fuse) return separate();
  matmul_->multiply_or({rows, from, to, false, false, false, false, Epilogue::gelu_backward},
                       {d_out, weight, d_wide, nullptr, const_cast<bfloat16*>(wide)}, separate);
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
                        float* out, int batch, int length, int width) {
  require(width % 8 == 0, fmt::format("on a GPU the width is a multiple of 8, and --width is {}", width));
  const int rows = batch * length;
  const void* const on_device = tokens_.send(tokens, static_cast<std::size_t>(rows) * sizeof(Token));
  gpu_.launch(Kernel::embed, {blocks(elements(rows, width) / 8, 256)}, 256, 0, rows, length, width, on_device,
              token_table, position_table, out);
}

void CudaCompute::embed_backward(const Token* tokens, const float* d_out, float* d_token_table,
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
  if (d_position_table == nullptr) return;
  gpu_.clear(d_position_table, elements(positions, width) * sizeof(float));
  gpu_.launch(Kernel::embed_positions_backward, {blocks(elements(length, width) / 8, 256)}, 256, 0, batch,
              length, width, d_out, d_position_table);
}

void CudaCompute::layer_norm(const float* x, const bfloat16* addend, float* sum, const bfloat16* gain,
                             const bfloat16* bias, bfloat16* out, float* mean, float* rstd, int rows,
                             int width) {
  require(width % 8 == 0 && width <= widest_row,
          fmt::format("on a GPU rows are at most {} wide, and --width is {}", widest_row, width));
  gpu_.launch(Kernel::layer_norm, {blocks(elements(rows, 1), norm_warps)}, norm_threads, 0, rows, width, x,
              addend, sum, gain, bias, out, mean, rstd);
}

void CudaCompute::layer_norm_backward(const float* x, const bfloat16* gain, const float* mean,
                                      const float* rstd, const bfloat16* d_out, float* d_x, bfloat16* rounded,
                                      float* d_gain, float* d_bias, int rows, int width) {
  const int parts = norm_backward_blocks(width);
  float* const partial = scratch(partial_, elements(parts, 2 * width));
  gpu_.launch(Kernel::layer_norm_backward, {elements(parts, 1)}, norm_threads, norm_backward_bytes(width),
              rows, width, x, gain, mean, rstd, d_out, d_x, rounded, partial);
  gpu_.launch(Kernel::sum_parts, {blocks(elements(2, width), 32)}, column_threads, column_bytes, parts,
              2 * width, width, static_cast<const float*>(partial), d_gain, d_bias);
}

void CudaCompute::gelu(const bfloat16* x, bfloat16* out, std::size_t count) {
  gpu_.launch(Kernel::gelu, {grid_stride_blocks(count / 8)}, element_threads, 0, count, x, out);
}

void CudaCompute::gelu_backward(const bfloat16* x, bfloat16* d_inout, std::size_t count) {
  gpu_.launch(Kernel::gelu_backward, {grid_stride_blocks(count / 8)}, element_threads, 0, count, x, d_inout);
}

void CudaCompute::attention(const AttentionShape& s, const bfloat16* qkv, bfloat16* out, float* log_sum) {
  const int head_width = s.head_width();
  gpu_.launch(kernel_for_heads(Kernel::attention_32, head_width),
              attention_grid(s, query_rows(head_width), s.heads), attention_threads,
              attention_forward_bytes(head_width), s.length, s.group(), qkv, out, log_sum);
}

void CudaCompute::attention_backward(const AttentionShape& s, const bfloat16* qkv, const bfloat16* out,
                                     const float* log_sum, const bfloat16* d_out, bfloat16* d_qkv) {
  float* const dots = scratch(dots_, elements(s.batch * s.length, s.heads));
  const int group = s.group(), head_width = s.head_width();
  gpu_.launch(kernel_for_heads(Kernel::attention_queries_backward_32, head_width),
              attention_grid(s, tile_rows, s.heads), attention_threads, attention_queries_bytes(head_width),
              s.length, group, qkv, out, log_sum, d_out, d_qkv, dots);
  gpu_.launch(kernel_for_heads(Kernel::attention_keys_backward_32, head_width),
              attention_grid(s, tile_rows, s.heads / group), attention_threads,
              attention_keys_bytes(head_width), s.length, group, qkv, log_sum, d_out,
              static_cast<const float*>(dots), d_qkv);
}

void CudaCompute::compute_cross_entropy(bfloat16* logits, const Token* targets, int rows, int classes,
                                        float gradient_scale) {
  const void* const on_device = targets_.send(targets, static_cast<std::size_t>(rows) * sizeof(Token));
  float* const losses = scratch(losses_, static_cast<std::size_t>(rows));
  gpu_.launch(Kernel::cross_entropy, {static_cast<std::size_t>(rows)}, classifier_threads, sum_bytes, classes,
              padded_classes(classes), logits, on_device, gradient_scale,
              static_cast<float>(label_smoothing_), losses);
  StepState* const state = device_state();
  gpu_.launch(Kernel::sum_losses, {1}, sum_threads, sum_bytes, rows, static_cast<const float*>(losses),
              accumulates_loss_ ? 1 : 0, &state->loss);
}

double CudaCompute::loss() {
  StepState* const state = device_state();
  gpu_.download(scalar_.data(), &state->loss, sizeof state->loss);
  gpu_.synchronize();
  double loss = 0;
  std::memcpy(&loss, scalar_.data(), sizeof loss);
  return loss;
}

void CudaCompute::save_loss(double* to) { gpu_.copy(to, &device_state()->loss, sizeof *to); }

void CudaCompute::restore_loss(const double* from) { gpu_.copy(&device_state()->loss, from, sizeof *from); }

void CudaCompute::begin_step(std::size_t chunks, std::size_t batches) {
  float* const flags = scratch(chunk_flags_, chunks);
  const std::size_t bytes = sizeof(StepState) + chunks * sizeof(float);
  for (OutcomeBuffer& buffer : outcome_buffers_) {  // both, so that the second step allocates nothing
    if (bytes <= buffer.capacity) continue;
    buffer.memory = std::make_unique<PinnedMemory>(gpu_, bytes);
    buffer.capacity = bytes;
  }
  outcome_buffers_[++steps_begun_ % 2].chunks = chunks;
  for (Staging* const each : {&tokens_, &targets_, &order_}) each->reserve_buffers(2 * chunks * batches);
  gpu_.clear(flags, chunks * sizeof(float));
  gpu_.clear(step_.data(), step_.size());
}

void CudaCompute::accumulate(const float* x, float* sum, std::size_t count, bool first) {
  gpu_.launch(Kernel::accumulate, {update_blocks(count)}, element_threads, 0, count, x, first ? 1 : 0, sum);
}

void CudaCompute::check_finite(const float* gradient, std::size_t count, std::size_t position,
                               double* squares) {
  StepState* const state = device_state();
  gpu_.launch(Kernel::find_not_finite, {update_blocks(count)}, element_threads, 0, count, gradient,
              &state->not_finite);
  if (squares) write_square_sum(gradient, count, position, squares);
}

void CudaCompute::end_chunk(std::size_t chunk, double scale, bool stop, bool failed, float* slots) {
  StepState* const state = device_state();
  gpu_.launch(Kernel::end_chunk, {1}, 32, 0, static_cast<const double*>(&state->loss), scale,
              stop ? 1.0f : 0.0f, failed ? 1.0f : 0.0f, &state->not_finite, chunk_flags_.data() + chunk,
              slots);
}

// The number of parts depends on `count` alone, and so do the bits.
void CudaCompute::write_square_sum(const float* x, std::size_t count, std::size_t /*position*/, double* sum) {
  const std::size_t parts = std::clamp<std::size_t>(blocks(count, 4 * norm_sum_threads), 1, norm_sum_blocks);
  gpu_.launch(Kernel::squares, {parts}, norm_sum_threads, sum_bytes, count, x, squares_.data());
  gpu_.launch(Kernel::sum_squares, {1}, norm_sum_threads, sum_bytes, static_cast<int>(parts),
              static_cast<const double*>(squares_.data()), 0, sum);
}

std::optional<double> CudaCompute::decide(const float* slots, const float* gradients,
                                          std::span<const std::size_t> ends, double clip) {
  double* const sums = scratch(tensor_squares_, ends.size());
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); begin = ends[i++])
    write_square_sum(gradients + begin, ends[i] - begin, begin, sums + i);
  return decide_from_squares(slots, {sums, ends.size()}, clip);
}

std::optional<double> CudaCompute::decide_from_squares(const float* slots, std::span<const double> squares,
                                                       double clip) {
  StepState* const state = device_state();
  gpu_.launch(Kernel::decide, {1}, 32, 0, static_cast<int>(squares.size()), squares.data(), slots,
              static_cast<float>(clip), state->slots, &state->decision);
  const OutcomeBuffer& buffer = outcome_buffers_[steps_begun_ % 2];
  gpu_.download(buffer.memory->data(), state, sizeof *state);
  gpu_.download(static_cast<std::byte*>(buffer.memory->data()) + sizeof *state, chunk_flags_.data(),
                buffer.chunks * sizeof(float));
  return 0;
}

void CudaCompute::end_step() { outcome_buffers_[steps_begun_ % 2].ready.record(); }

// A stream of its own: communicators can wait only for streams, and the main stream already has the next
// step.
Stream CudaCompute::outcome_stream() {
  outcome_buffers_[(outcomes_ + 1) % 2].ready.block(outcome_stream_);
  return outcome_stream_;
}

StepOutcome CudaCompute::outcome() {
  OutcomeBuffer& buffer = outcome_buffers_[++outcomes_ % 2];
  buffer.ready.synchronize();
  StepState state;
  std::memcpy(&state, buffer.memory->data(), sizeof state);
  std::vector<float> flags(buffer.chunks);
  std::memcpy(flags.data(), static_cast<const std::byte*>(buffer.memory->data()) + sizeof state,
              buffer.chunks * sizeof(float));
  StepOutcome step;
  step.loss = static_cast<double>(state.slots[loss_slot]);
  step.gradient_norm = state.decision.norm;
  step.finite = state.decision.apply != 0;
  step.any_stop = state.slots[stop_slot] > 0;
  step.any_failed = state.slots[failed_slot] > 0;
  for (const float flag : flags) step.chunk_is_finite.push_back(flag == 0);
  return step;
}

double CudaCompute::sum_of_squares(const float* x, std::size_t count, std::size_t position) {
  StepState* const state = device_state();
  write_square_sum(x, count, position, &state->squares);
  gpu_.download(scalar_.data(), &state->squares, sizeof state->squares);
  gpu_.synchronize();
  double sum = 0;
  std::memcpy(&sum, scalar_.data(), sizeof sum);
  return sum;
}

void CudaCompute::adamw(const AdamwStep& step, float* parameter, const float* gradient, float* moment1,
                        float* moment2, bfloat16* rounded, std::size_t count) {
  const UpdateScalars scalars{static_cast<float>(step.beta1),
                              static_cast<float>(step.beta2),
                              static_cast<float>(step.learning_rate / step.correction1),
                              static_cast<float>(1 / step.correction2),
                              static_cast<float>(step.epsilon),
                              static_cast<float>(1 - step.learning_rate * step.weight_decay)};
  gpu_.launch(Kernel::adamw, {update_blocks(count)}, element_threads, 0, count, scalars,
              static_cast<const Decision*>(&device_state()->decision), parameter, gradient, moment1, moment2,
              rounded);
}

void CudaCompute::sgd(const SgdStep& step, float* parameter, const float* gradient, float* momentum,
                      bfloat16* rounded, std::size_t count) {
  const auto rate = static_cast<float>(step.learning_rate), factor = static_cast<float>(step.momentum);
  const SgdScalars scalars{static_cast<float>(step.weight_decay), factor, step.nesterov ? rate : 0,
                           step.nesterov ? rate * factor : rate};
  gpu_.launch(Kernel::sgd, {update_blocks(count)}, element_threads, 0, count, scalars,
              static_cast<const Decision*>(&device_state()->decision), parameter, gradient, momentum,
              rounded);
}

void CudaCompute::move_statistics(float* statistic, const float* batch, std::size_t count, double momentum) {
  gpu_.launch(Kernel::move_statistics, {grid_stride_blocks(count)}, element_threads, 0, count,
              static_cast<float>(momentum), static_cast<const Decision*>(&device_state()->decision),
              statistic, batch);
}

void CudaCompute::round(const float* parameter, bfloat16* rounded, std::size_t count) {
  gpu_.launch(Kernel::round, {update_blocks(count)}, element_threads, 0, count, parameter, rounded);
}

}  // namespace muster::compute::cuda
