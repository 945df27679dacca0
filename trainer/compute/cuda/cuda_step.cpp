// SPDX-License-Identifier: Apache-2.0
// Loss, norm, decision and update on the GPU. The host reads them by loss(), outcome() and sum_of_squares().
// Consecutive steps have separate outcome buffers: the host may be one step ahead.
#include <algorithm>
#include <cstring>

#include "compute/cuda/cuda_compute.hpp"
#include "compute/cuda/launch_sizes.hpp"

namespace muster::compute::cuda {

using namespace sizes;

/// A step's results on the device, contiguous, so that one copy transfers them.
struct CudaCompute::StepState {
  double loss = 0;     ///< of the last cross-entropy
  double squares = 0;  ///< of all gradients
  Decision decision;
  float not_finite = 0;  ///< of the current chunk
  float slots[reduced_scalar_count] = {};
};

namespace {

std::size_t update_blocks(std::size_t count) {
  return std::min<std::size_t>((count / 4 + element_threads) / element_threads, 8192);
}

}  // namespace

CudaCompute::CudaCompute(const Options& options)
    : options_(options),
      matmul_(std::make_unique<CublasMatmul>(gpu_, options.autotune_matmul)),
      squares_(norm_sum_blocks, gpu_),
      step_(sizeof(StepState), gpu_) {
  gpu_.driver().require(gpu_.driver().stream_create(&outcome_stream_, CU_STREAM_NON_BLOCKING), "no stream");
}

CudaCompute::~CudaCompute() {
  // running work may still write to memory that is freed below
  gpu_.driver().stream_synchronize(gpu_.stream());
  gpu_.driver().stream_destroy(outcome_stream_);
}

void CudaCompute::compute_cross_entropy(bfloat16* logits, const Token* targets, int rows, int classes,
                                        float gradient_scale) {
  const void* const on_device = targets_.send(targets, static_cast<std::size_t>(rows) * sizeof(Token));
  float* const losses = scratch(losses_, static_cast<std::size_t>(rows));
  gpu_.launch(Kernel::cross_entropy, {static_cast<std::size_t>(rows)}, classifier_threads, sum_bytes, classes,
              padded_classes(classes), logits, on_device, gradient_scale, losses);
  auto* const state = reinterpret_cast<StepState*>(step_.data());
  gpu_.launch(Kernel::sum_losses, {1}, sum_threads, sum_bytes, rows, static_cast<const float*>(losses), 0,
              &state->loss);
}

double CudaCompute::loss() {
  auto* const state = reinterpret_cast<StepState*>(step_.data());
  gpu_.download(scalar_.data(), &state->loss, sizeof state->loss);
  gpu_.synchronize();
  double loss = 0;
  std::memcpy(&loss, scalar_.data(), sizeof loss);
  return loss;
}

void CudaCompute::begin_step(std::size_t chunks) {
  float* const flags = scratch(chunk_flags_, chunks);
  const std::size_t bytes = sizeof(StepState) + chunks * sizeof(float);
  for (OutcomeBuffer& buffer : outcome_buffers_) {  // both, so that the second step allocates nothing
    if (bytes <= buffer.capacity) continue;
    buffer.memory = std::make_unique<PinnedMemory>(gpu_, bytes);
    buffer.capacity = bytes;
  }
  outcome_buffers_[++steps_begun_ % 2].chunks = chunks;
  for (Staging* const each : {&tokens_, &targets_, &order_}) each->reserve_buffers(2 * chunks);
  gpu_.clear(flags, chunks * sizeof(float));
  gpu_.clear(step_.data(), step_.size());
}

void CudaCompute::check_finite(const float* gradient, std::size_t count) {
  auto* const state = reinterpret_cast<StepState*>(step_.data());
  gpu_.launch(Kernel::find_not_finite, {update_blocks(count)}, element_threads, 0, count, gradient,
              &state->not_finite);
}

void CudaCompute::end_chunk(std::size_t chunk, double scale, bool stop, bool failed, float* slots) {
  auto* const state = reinterpret_cast<StepState*>(step_.data());
  gpu_.launch(Kernel::end_chunk, {1}, 32, 0, static_cast<const double*>(&state->loss), scale,
              stop ? 1.0f : 0.0f, failed ? 1.0f : 0.0f, &state->not_finite, chunk_flags_.data() + chunk,
              slots);
}

void CudaCompute::enqueue_squares(const float* x, std::size_t count) {
  auto* const state = reinterpret_cast<StepState*>(step_.data());
  gpu_.launch(Kernel::squares, {norm_sum_blocks}, norm_sum_threads, sum_bytes, count, x, squares_.data());
  gpu_.launch(Kernel::sum_squares, {1}, norm_sum_threads, sum_bytes, norm_sum_blocks,
              static_cast<const double*>(squares_.data()), 0, &state->squares);
}

std::optional<double> CudaCompute::decide(const float* slots, const float* gradients, std::size_t count,
                                          double clip) {
  auto* const state = reinterpret_cast<StepState*>(step_.data());
  enqueue_squares(gradients, count);
  gpu_.launch(Kernel::decide, {1}, 32, 0, static_cast<const double*>(&state->squares), slots,
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

double CudaCompute::sum_of_squares(const float* x, std::size_t count) {
  enqueue_squares(x, count);
  auto* const state = reinterpret_cast<StepState*>(step_.data());
  gpu_.download(scalar_.data(), &state->squares, sizeof state->squares);
  gpu_.synchronize();
  double sum = 0;
  std::memcpy(&sum, scalar_.data(), sizeof sum);
  return sum;
}

void CudaCompute::adamw(const AdamwStep& step, float* parameter, const float* gradient, float* moment1,
                        float* moment2, bfloat16* rounded, std::size_t count) {
  const auto* const state = reinterpret_cast<const StepState*>(step_.data());
  const UpdateScalars scalars{static_cast<float>(step.beta1),
                              static_cast<float>(step.beta2),
                              static_cast<float>(step.learning_rate / step.correction1),
                              static_cast<float>(1 / step.correction2),
                              static_cast<float>(step.epsilon),
                              static_cast<float>(1 - step.learning_rate * step.weight_decay)};
  gpu_.launch(Kernel::adamw, {update_blocks(count)}, element_threads, 0, count, scalars, &state->decision,
              parameter, gradient, moment1, moment2, rounded);
}

void CudaCompute::round(const float* parameter, bfloat16* rounded, std::size_t count) {
  gpu_.launch(Kernel::round, {update_blocks(count)}, element_threads, 0, count, parameter, rounded);
}

}  // namespace muster::compute::cuda
