// SPDX-License-Identifier: Apache-2.0
// What batch normalization over several ranks needs beside cuDNN; BatchNorm documents it. x and gradients are
// [rows, channels], of any sizes. Sums over rows have two steps and a fixed order. What the ranks add up is
// [1 + 2 * channels]: the number of rows, then a first and a second sum of each channel.
#pragma once

#include "compute/cuda/kernels/warp.cuh"

namespace muster::compute::cuda {

/// The rows of one channel that a thread computes: first, first + step, …. Neighbouring threads have
/// neighbouring channels, so that a block reads whole rows. Grid: (blocks of as many channels as a block has
/// threads, parts of the rows).
struct ChannelRows {
  std::size_t channel, first, step;
  unsigned width, at_once, place;  ///< channels of the block, rows that it reads at once, and this thread's
  __device__ bool is_idle() const { return place >= at_once; }
};
__device__ inline ChannelRows channel_rows(std::size_t channels) {
  const std::size_t begin = std::size_t{blockIdx.x} * blockDim.x, left = channels - begin;
  const auto width = static_cast<unsigned>(left < blockDim.x ? left : std::size_t{blockDim.x});
  const unsigned at_once = blockDim.x / width, place = threadIdx.x / width;
  return {begin + threadIdx.x % width,
          std::size_t{blockIdx.y} * at_once + place,
          std::size_t{gridDim.y} * at_once,
          width,
          at_once,
          place};
}

/// partial[part, 2, channels] = two sums over the part's rows. add(element, channel, first, second) adds an
/// element's share to both. Shared memory: two floats for each thread.
template <typename Add>
__device__ inline void write_parts(std::size_t rows, std::size_t channels, float* shared, double* partial,
                                   Add add) {
  const ChannelRows mine = channel_rows(channels);
  float first = 0.0f, second = 0.0f;
  for (std::size_t row = mine.first; row < rows && !mine.is_idle(); row += mine.step)
    add(row * channels + mine.channel, mine.channel, first, second);
  shared[threadIdx.x] = first;
  shared[blockDim.x + threadIdx.x] = second;
  __syncthreads();
  if (mine.place != 0) return;
  double totals[2] = {0.0, 0.0};
  for (unsigned at = threadIdx.x; at < mine.at_once * mine.width; at += mine.width) {
    totals[0] += static_cast<double>(shared[at]);
    totals[1] += static_cast<double>(shared[blockDim.x + at]);
  }
  double* const to = partial + std::size_t{blockIdx.y} * 2 * channels + mine.channel;
  to[0] = totals[0];
  to[channels] = totals[1];
}

/// The two sums of x's distances from the channel's first x, and of their squares: differences of large
/// numbers would lose the variance.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_norm_parts(std::size_t rows, std::size_t channels, const Bf16* x, double* partial) {
  MUSTER_SHARED_BYTES(shared);
  write_parts(rows, channels, reinterpret_cast<float*>(shared), partial,
              [=](std::size_t at, std::size_t channel, float& sum, float& squares) {
                const float distance = widen(x[at]) - widen(x[channel]);
                sum += distance;
                squares += distance * distance;
              });
}

/// The two sums of g and of g * (x - mean).
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_norm_gradient_parts(std::size_t rows, std::size_t channels, const Bf16* x, const float* mean,
                               const Bf16* g, double* partial) {
  MUSTER_SHARED_BYTES(shared);
  write_parts(rows, channels, reinterpret_cast<float*>(shared), partial,
              [=](std::size_t at, std::size_t channel, float& sum, float& dot) {
                const float gradient = widen(g[at]);
                sum += gradient;
                dot += gradient * (widen(x[at]) - mean[channel]);
              });
}

/// Calls use(channel, first, second) with the sums over the parts. Grid: blocks of 32 channels, whose warps
/// share the parts. Shared memory: two doubles for each thread.
template <typename Use>
__device__ inline void add_parts(int parts, std::size_t channels, double* shared, const double* partial,
                                 Use use) {
  const std::size_t channel = std::size_t{blockIdx.x} * warp_size + static_cast<std::size_t>(lane());
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  double first = 0.0, second = 0.0;
  for (int part = warp(); part < parts && channel < channels; part += warps) {
    const double* const from = partial + static_cast<std::size_t>(part) * 2 * channels + channel;
    first += from[0];
    second += from[channels];
  }
  shared[threadIdx.x] = first;
  shared[blockDim.x + threadIdx.x] = second;
  __syncthreads();
  if (warp() != 0 || channel >= channels) return;
  first = second = 0.0;
  for (unsigned at = threadIdx.x; at < blockDim.x; at += warp_size) {
    first += shared[at];
    second += shared[blockDim.x + at];
  }
  use(channel, first, second);
}

/// sums = this rank's rows, sums of x and sums of squares.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_norm_sums(int parts, std::size_t rows, std::size_t channels, const Bf16* x, const double* partial,
                     double* sums) {
  MUSTER_SHARED_BYTES(shared);
  add_parts(parts, channels, reinterpret_cast<double*>(shared), partial,
            [=](std::size_t channel, double distances, double squares) {
              const auto count = static_cast<double>(rows);
              const auto from = static_cast<double>(widen(x[channel]));
              if (channel == 0) sums[0] = count;
              sums[1 + channel] = distances + count * from;
              sums[1 + channels + channel] = squares + from * (2 * distances + count * from);
            });
}

/// sums = this rank's rows, sums of g and of g * (x - mean), of which d_gain and d_bias are its own part.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_norm_gradient_sums(int parts, std::size_t rows, std::size_t channels, const float* rstd,
                              const double* partial, float* d_gain, float* d_bias, double* sums) {
  MUSTER_SHARED_BYTES(shared);
  add_parts(parts, channels, reinterpret_cast<double*>(shared), partial,
            [=](std::size_t channel, double sum, double dot) {
              if (channel == 0) sums[0] = static_cast<double>(rows);
              sums[1 + channel] = sum;
              sums[1 + channels + channel] = dot;
              d_bias[channel] = static_cast<float>(sum);
              d_gain[channel] = static_cast<float>(dot * static_cast<double>(rstd[channel]));
            });
}

/// From all ranks' sums: mean, variance (biased) and rstd of each channel; batch_mean and batch_variance as
/// ImageCompute::normalize().
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_norm_statistics(std::size_t channels, const double* sums, double epsilon, double share,
                           float* mean, float* variance, float* rstd, float* batch_mean,
                           float* batch_variance) {
  for_each_group<1>(channels, [=](std::size_t channel) {
    const double count = sums[0], middle = sums[1 + channel] / count,
                 distance = sums[1 + channels + channel] - count * middle * middle,
                 squares = distance < 0.0 ? 0.0 : distance;  // NaN stays
    mean[channel] = static_cast<float>(middle);
    variance[channel] = static_cast<float>(squares / count);
    rstd[channel] = static_cast<float>(1.0 / sqrt(squares / count + epsilon));
    batch_mean[channel] = static_cast<float>(share * middle);
    batch_variance[channel] = static_cast<float>(share * squares / (count > 2.0 ? count - 1.0 : 1.0));
  });
}

/// d_x = gain * rstd * (g - sum of g / rows - (x - mean) * rstd^2 * sum of g * (x - mean) / rows), with all
/// ranks' sums. d_x may be g. Grid: as muster_norm_parts.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_norm_backward(std::size_t rows, std::size_t channels, const Bf16* x, const Bf16* g,
                         const float* mean, const float* rstd, const float* gain, const double* sums,
                         Bf16* d_x) {
  const ChannelRows mine = channel_rows(channels);
  if (mine.is_idle()) return;
  const double count = sums[0], scale = static_cast<double>(rstd[mine.channel]),
               gained = static_cast<double>(gain[mine.channel]) * scale;
  const auto by_g = static_cast<float>(gained);
  const auto by_x = static_cast<float>(-gained * scale * scale * sums[1 + channels + mine.channel] / count);
  const auto constant = static_cast<float>(-gained * sums[1 + mine.channel] / count);
  const float middle = mean[mine.channel];
  for (std::size_t row = mine.first; row < rows; row += mine.step) {
    const std::size_t at = row * channels + mine.channel;
    d_x[at] = narrow(by_g * widen(g[at]) + (by_x * (widen(x[at]) - middle) + constant));
  }
}

}  // namespace muster::compute::cuda
