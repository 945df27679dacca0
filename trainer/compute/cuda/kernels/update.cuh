// SPDX-License-Identifier: Apache-2.0
// The end of a step: norm, decision, AdamW and SGD. The host waits for none of them.
#pragma once

#include "compute/cuda/kernels/update_step.hpp"
#include "compute/cuda/kernels/warp.cuh"
#include "compute/reduced_scalars.hpp"

namespace muster::compute::cuda {

constexpr int norm_sum_threads = 256;

/// partial[block] = the block's share of the sum of squares.
extern "C" __global__ void __launch_bounds__(norm_sum_threads)
    muster_squares(std::size_t count, const float* x, double* partial) {
  MUSTER_SHARED_BYTES(shared);
  double total = 0;
  for_each_group<4>(count, [&](std::size_t at) {
    const Float4 four = load_four(x, at, count);
#pragma unroll
    for (const float value : four.of) total += static_cast<double>(value) * static_cast<double>(value);
  });
  total = sum_of_block(total, reinterpret_cast<double*>(shared));
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

/// *sum (+)= the sum of the parts. One block.
extern "C" __global__ void __launch_bounds__(norm_sum_threads)
    muster_sum_squares(int parts, const double* partial, int add, double* sum) {
  MUSTER_SHARED_BYTES(shared);
  double total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < parts; i += norm_sum_threads) total += partial[i];
  total = sum_of_block(total, reinterpret_cast<double*>(shared));
  if (threadIdx.x == 0) *sum = add != 0 ? *sum + total : total;
}

/// Sets *flag where an element is not finite; a flag that is set stays.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_find_not_finite(std::size_t count, const float* x, float* flag) {
  bool found = false;
  for_each_group<4>(count, [&](std::size_t at) {
    const Float4 four = load_four(x, at, count);
#pragma unroll
    for (const float value : four.of) found = found || !(fabsf(value) <= 3.402823466e38f);
  });
  if (found) *flag = 1.0f;  // all writers write the same value
}

/// Writes a chunk's reduced scalars (ReducedScalar) and its flag; clears `not_finite` for the next chunk.
extern "C" __global__ void muster_end_chunk(const double* loss, double scale, float stop, float failed,
                                            float* not_finite, float* chunk_flag, float* slots) {
  if (threadIdx.x != 0) return;
  const double mean = *loss * scale;
  const bool finite = *not_finite == 0.0f && fabs(mean) <= 3.402823466e38;
  slots[loss_slot] = static_cast<float>(mean);
  slots[non_finite_slot] = *chunk_flag = finite ? 0.0f : 1.0f;
  slots[stop_slot] = stop;
  slots[failed_slot] = failed;
  *not_finite = 0.0f;
}

/// Decides about an update from the reduced scalars, which it copies to `slots_copy`, and the sums of squares
/// of `parts` of the gradients, which it adds in their order.
extern "C" __global__ void muster_decide(int parts, const double* squares, const float* slots, float clip,
                                         float* slots_copy, Decision* decision) {
  if (threadIdx.x != 0) return;
  double sum = 0;
  for (int i = 0; i < parts; ++i) sum += squares[i];
  const double norm = sqrt(sum), most = static_cast<double>(clip);
  const bool finite = norm <= 1.7976931348623157e308 && fabsf(slots[loss_slot]) <= 3.402823466e38f &&
                      slots[non_finite_slot] == 0.0f;
  for (int i = 0; i < reduced_scalar_count; ++i) slots_copy[i] = slots[i];
  decision->norm = norm;
  decision->gradient_scale = most > 0 && norm > most ? static_cast<float>(most / norm) : 1.0f;
  decision->apply = finite ? 1 : 0;
}

/// parameter: the float master weights; copy, unless null: their bfloat16 copy for the model.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_adamw(std::size_t count, UpdateScalars s, const Decision* decision, float* parameter,
                 const float* gradient, float* moment1, float* moment2, Bf16* copy) {
  if (decision->apply == 0) return;
  const float scale = decision->gradient_scale;
  for_each_group<4>(count, [=](std::size_t at) {
    const Float4 g = load_four(gradient, at, count);
    Float4 p = load_four(parameter, at, count), m = load_four(moment1, at, count),
           v = load_four(moment2, at, count);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float clipped = g.of[i] * scale;
      m.of[i] = s.beta1 * m.of[i] + (1.0f - s.beta1) * clipped;
      v.of[i] = s.beta2 * v.of[i] + (1.0f - s.beta2) * clipped * clipped;
      p.of[i] =
          p.of[i] * s.decay - s.step_size * m.of[i] / (sqrtf(v.of[i] * s.inverse_correction2) + s.epsilon);
    }
    store_four(parameter, at, count, p);
    store_four(moment1, at, count, m);
    store_four(moment2, at, count, v);
    if (copy != nullptr) store_four(copy, at, count, p);
  });
}

/// As muster_adamw.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_sgd(std::size_t count, SgdScalars s, const Decision* decision, float* parameter,
               const float* gradient, float* momentum, Bf16* copy) {
  if (decision->apply == 0) return;
  const float scale = decision->gradient_scale;
  for_each_group<4>(count, [=](std::size_t at) {
    const Float4 g = load_four(gradient, at, count);
    Float4 p = load_four(parameter, at, count), v = load_four(momentum, at, count);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float decayed = g.of[i] * scale + s.decay * p.of[i];
      v.of[i] = s.momentum * v.of[i] + decayed;
      p.of[i] = p.of[i] - (s.of_gradient * decayed + s.of_momentum * v.of[i]);
    }
    store_four(parameter, at, count, p);
    store_four(momentum, at, count, v);
    if (copy != nullptr) store_four(copy, at, count, p);
  });
}

/// statistic = (1 - momentum) * statistic + momentum * batch, if the step updates anything.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_move_statistics(std::size_t count, float momentum, const Decision* decision, float* statistic,
                           const float* batch) {
  if (decision->apply == 0) return;
  for_each_group<1>(count, [=](std::size_t at) {
    statistic[at] = (1.0f - momentum) * statistic[at] + momentum * batch[at];
  });
}

}  // namespace muster::compute::cuda
