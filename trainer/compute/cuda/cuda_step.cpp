// SPDX-License-Identifier: Apache-2.0
// Loss, norm, decision and update on the GPU. The host learns of them in loss(), outcome() and
// sum_of_squares(). What the host reads of a step and the next one lies apart: it may be one step ahead.
#include <algorithm>
#include <cstring>

#include "compute/cuda/cuda_compute.hpp"
#include "compute/cuda/launch_sizes.hpp"

namespace muster::compute::cuda {

using namespace sizes;

/// What a step leaves on the device, in one piece, so that it is told by one copy.
struct CudaCompute::StepState {
  double loss = 0;     ///< of the last cross-entropy
  double squares = 0;  ///< of all gradients
  Decision decision;
  float not_finite = 0;  ///< of the chunk that is computed
  float slots[step_slots] = {};
};

namespace {

std::size_t update_blocks(std::size_t count) {
  return std::min<std::size_t>((count / 4 + element_threads) / element_threads, 8192);
}

}  // namespace

CudaCompute::CudaCompute(const Options& options)
    : options_(options),
      products_(std::make_unique<Products>(gpu_, options.measure_products)),
      squares_(norm_sum_blocks, gpu_),
      step_(sizeof(StepState), gpu_) {
  gpu_.driver().require(gpu_.driver().stream_create(&outcome_stream_, CU_STREAM_NON_BLOCKING), "no stream");
}

CudaCompute::~CudaCompute() {
  gpu_.driver().stream_synchronize(gpu_.stream());  // what is under way may write to what goes now
  gpu_.driver().stream_destroy(outcome_stream_);
}

void CudaCompute::classify(bfloat16* logits, const Token* targets, int rows, int classes,
                           float gradient_scale) {
  const void* const there = targets_.send(targets, static_cast<std::size_t>(rows) * sizeof(Token));
  float* const losses = scratch(losses_, static_cast<std::size_t>(rows));
  gpu_.launch(Kernel::cross_entropy, {static_cast<std::size_t>(rows)}, classifier_threads, sum_bytes, classes,
              row_of_logits(classes), logits, there, gradient_scale, losses);
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
  for (Told& told : told_) {  // both, so that the second step asks for none
    if (bytes <= told.room) continue;
    told.memory = std::make_unique<Pinned>(gpu_, bytes);
    told.room = bytes;
  }
  told_[++steps_begun_ % 2].chunks = chunks;
  for (Staging* const each : {&tokens_, &targets_, &order_}) each->take_turns(2 * chunks);
  gpu_.clear(flags, chunks * sizeof(float));
  gpu_.clear(step_.data(), step_.size());
}

void CudaCompute::look_at(const float* gradient, std::size_t count) {
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
  const Told& told = told_[steps_begun_ % 2];
  gpu_.download(told.memory->data(), state, sizeof *state);
  gpu_.download(static_cast<std::byte*>(told.memory->data()) + sizeof *state, chunk_flags_.data(),
                told.chunks * sizeof(float));
  return 0;
}

void CudaCompute::end_step() { told_[steps_begun_ % 2].is_there.set(); }

// Neither the stream, which has the next step already, nor the mark: a communicator waits for streams.
Stream CudaCompute::outcome_stream() {
  told_[(outcomes_ + 1) % 2].is_there.hold(outcome_stream_);
  return outcome_stream_;
}

StepOutcome CudaCompute::outcome() {
  Told& told = told_[++outcomes_ % 2];
  told.is_there.wait();
  StepState state;
  std::memcpy(&state, told.memory->data(), sizeof state);
  std::vector<float> flags(told.chunks);
  std::memcpy(flags.data(), static_cast<const std::byte*>(told.memory->data()) + sizeof state,
              told.chunks * sizeof(float));
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
