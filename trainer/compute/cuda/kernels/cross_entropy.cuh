// SPDX-License-Identifier: Apache-2.0
// Cross-entropy and its gradient, in place of the logits; probabilities are stored nowhere else.
#pragma once

#include "compute/cuda/kernels/mma.cuh"

namespace muster::compute::cuda {

/// Two rows per multiprocessor: the rows of all multiprocessors, 26 MB of GPT-2's logits on an H200, are
/// still in the level-2 cache when they are read again.
constexpr int classifier_threads = 1024;
constexpr int sum_threads = 1024;
/// Below every logit but -inf, which thereby gets weight 0.
constexpr float lowest = -3.402823466e38f;

/// Logits at … at + 7; -inf stands for those from `classes` on.
__device__ inline void load_logits(const Bf16* row, int at, int classes, float (&to)[8]) {
  load_eight(row + at, to);
  if (at + 8 <= classes) return;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (at + i >= classes) to[i] = -INFINITY;
  }
}

/// A thread's part of a row: the largest logit and the sum of exp(logit - largest).
struct PartialSoftmax {
  float largest, total;
};

__device__ inline PartialSoftmax partial_softmax(const Bf16* logits, int classes) {
  PartialSoftmax partial{lowest, 0.0f};
  for (int at = static_cast<int>(threadIdx.x) * 8; at < classes; at += classifier_threads * 8) {
    float part[8];
    load_logits(logits, at, classes, part);
    float largest = partial.largest;
#pragma unroll
    for (int i = 0; i < 8; ++i) largest = fmaxf(largest, part[i]);
    partial.total *= exponential(partial.largest - largest);
    partial.largest = largest;
#pragma unroll
    for (int i = 0; i < 8; ++i) partial.total += exponential(part[i] - largest);
  }
  return partial;
}

/// The mean of a row's logits.
__device__ inline float mean_of_row(const Bf16* logits, int classes, float* warps) {
  float sum = 0.0f;
  for (int at = static_cast<int>(threadIdx.x) * 8; at < classes; at += classifier_threads * 8) {
    float part[8];
    load_eight(logits + at, part);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += at + i < classes ? part[i] : 0.0f;
  }
  return sum_of_block(sum, warps) / static_cast<float>(classes);
}

/// losses[row] = cross-entropy of softmax(logits[row, classes]) against targets[row]. Unless gradient_scale
/// is 0, the target is smoothed (Compute::set_label_smoothing), and the row's `stride` logits become
/// gradient_scale * d loss / d logits, zero from `classes` on.
/// `stride` is a multiple of 8. One block per row.
extern "C" __global__ void __launch_bounds__(classifier_threads)
    muster_cross_entropy(int classes, int stride, Bf16* logits, const std::uint32_t* targets,
                         float gradient_scale, float smoothing, float* losses) {
  MUSTER_SHARED_BYTES(shared);
  float* const warps = reinterpret_cast<float*>(shared);
  Bf16* const row = logits + std::size_t{blockIdx.x} * static_cast<std::size_t>(stride);
  const int target = static_cast<int>(targets[blockIdx.x]);
  const float target_logit = widen(row[target]);
  const PartialSoftmax partial = partial_softmax(row, classes);
  const float largest = largest_of_block(partial.largest, warps);
  // After this barrier no thread reads a logit that another thread replaces below.
  const float total = sum_of_block(partial.total * exponential(partial.largest - largest), warps);
  float loss = logf(total) + largest - target_logit;
  if (gradient_scale != 0.0f && smoothing != 0.0f)
    loss += smoothing * (target_logit - mean_of_row(row, classes, warps));
  if (threadIdx.x == 0) losses[blockIdx.x] = loss;
  if (gradient_scale == 0.0f) return;
  const float factor = gradient_scale / total,
              uniform = gradient_scale * smoothing / static_cast<float>(classes);
  for (int at = static_cast<int>(threadIdx.x) * 8; at < stride; at += classifier_threads * 8) {
    float part[8];
    load_logits(row, at, classes, part);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      part[i] = exponential(part[i] - largest) * factor - (at + i < classes ? uniform : 0.0f);
    store_eight(row + at, part);
    if (at == target / 8 * 8)
      row[target] = narrow(exponential(target_logit - largest) * factor -
                           (gradient_scale * (1.0f - smoothing) + uniform));
  }
}

/// *sum (+)= the sum of the losses. One block.
extern "C" __global__ void __launch_bounds__(sum_threads)
    muster_sum_losses(int rows, const float* losses, int add, double* sum) {
  MUSTER_SHARED_BYTES(shared);
  double total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < rows; i += sum_threads)
    total += static_cast<double>(losses[i]);
  total = sum_of_block(total, reinterpret_cast<double*>(shared));
  if (threadIdx.x == 0) *sum = add != 0 ? *sum + total : total;
}

}  // namespace muster::compute::cuda
