// SPDX-License-Identifier: Apache-2.0
// What networks on images need beside cuDNN; ImageCompute documents the operations. Images are [batch,
// pixels, channels]. A thread computes one element at a time, or eight, of arrays whose memory goes on to a
// multiple of 16 bytes.
#pragma once

#include "compute/cuda/kernels/image_sizes.hpp"
#include "compute/cuda/kernels/warp.cuh"

namespace muster::compute::cuda {

/// NaN stays.
__device__ inline float relu(float x) { return x <= 0.0f ? 0.0f : x; }

/// out = x (+ addend, unless null), then ReLU unless `rectify` is 0. out may be x.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_add_relu(std::size_t count, const Bf16* x, const Bf16* addend, int rectify, Bf16* out) {
  for_each_group<8>(count, [=](std::size_t at) {
    float sum[8], part[8] = {};
    load_eight(x + at, sum);
    if (addend != nullptr) load_eight(addend + at, part);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sum[i] += part[i];
      if (rectify != 0) sum[i] = relu(sum[i]);
    }
    store_eight(out + at, sum);
  });
}

/// d_x = d_out (+ d_also, unless null), zero where `out`, unless null, is not positive. d_x may be any of
/// them.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_add_relu_backward(std::size_t count, const Bf16* out, const Bf16* d_out, const Bf16* d_also,
                             Bf16* d_x) {
  for_each_group<8>(count, [=](std::size_t at) {
    float sum[8], part[8] = {}, result[8];
    load_eight(d_out + at, sum);
    if (d_also != nullptr) load_eight(d_also + at, part);
    if (out != nullptr) load_eight(out + at, result);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] = out == nullptr || result[i] > 0.0f ? sum[i] + part[i] : 0.0f;
    store_eight(d_x + at, sum);
  });
}

/// The factor of an element of [batch, pixels, channels] among those of [batch, channels].
__device__ inline float factor_at(const Bf16* factor, std::size_t at, std::size_t pixels,
                                  std::size_t channels) {
  return widen(factor[at / (pixels * channels) * channels + at % channels]);
}

/// out = ReLU(factor * x), a factor for each image's channel.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_scale_relu(std::size_t count, std::size_t pixels, std::size_t channels, const Bf16* x,
                      const Bf16* factor, Bf16* out) {
  for_each_group<1>(count, [=](std::size_t at) {
    out[at] = narrow(relu(factor_at(factor, at, pixels, channels) * widen(x[at])));
  });
}

extern "C" __global__ void __launch_bounds__(element_threads)
    muster_scale_relu_backward(std::size_t count, std::size_t pixels, std::size_t channels, const Bf16* out,
                               const Bf16* factor, const Bf16* d_out, Bf16* d_x) {
  for_each_group<1>(count, [=](std::size_t at) {
    const float d = factor_at(factor, at, pixels, channels) * widen(d_out[at]);
    d_x[at] = narrow(widen(out[at]) > 0.0f ? d : 0.0f);
  });
}

/// out [.., channels] += bias.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_add_bias(std::size_t count, std::size_t channels, const Bf16* bias, Bf16* out) {
  for_each_group<1>(count,
                    [=](std::size_t at) { out[at] = narrow(widen(out[at]) + widen(bias[at % channels])); });
}

/// sums[channel] = the sum of x [rows, channels]. One block for each channel.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_channel_sums(std::size_t rows, std::size_t channels, const Bf16* x, float* sums) {
  MUSTER_SHARED_BYTES(shared);
  float sum = 0;
  for (std::size_t row = threadIdx.x; row < rows; row += blockDim.x)
    sum += widen(x[row * channels + blockIdx.x]);
  sum = sum_of_block(sum, reinterpret_cast<float*>(shared));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// The place in matrices [rows, columns] of an element of the transposed ones.
__device__ inline std::size_t before_transposition(std::size_t at, std::size_t rows, std::size_t columns) {
  const std::size_t matrix = at / (rows * columns), within = at % (rows * columns);
  return matrix * rows * columns + within % rows * columns + within / rows;
}

/// to [matrices, columns, rows] = from [matrices, rows, columns].
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_transpose(std::size_t count, std::size_t rows, std::size_t columns, const Bf16* from, Bf16* to) {
  for_each_group<1>(count, [=](std::size_t at) { to[at] = from[before_transposition(at, rows, columns)]; });
}

extern "C" __global__ void __launch_bounds__(element_threads)
    muster_transpose_to_float(std::size_t count, std::size_t rows, std::size_t columns, const Bf16* from,
                              float* to) {
  for_each_group<1>(count,
                    [=](std::size_t at) { to[at] = widen(from[before_transposition(at, rows, columns)]); });
}

/// Rows of `from_width` elements become rows of `to_width`: cut, or with zeros behind. count: of `to`.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_copy_rows(std::size_t count, std::size_t from_width, std::size_t to_width, const Bf16* from,
                     Bf16* to) {
  for_each_group<1>(count, [=](std::size_t at) {
    const std::size_t row = at / to_width, column = at % to_width;
    to[at] = column < from_width ? from[row * from_width + column] : narrow(0.0f);
  });
}

/// A pixel's coordinates, and its channel, of an element of images.
struct ImagePlace {
  std::size_t image;
  int y, x, channel;
};
__device__ inline ImagePlace image_place(std::size_t at, int height, int width, int channels) {
  const auto channel = static_cast<int>(at % static_cast<std::size_t>(channels));
  const std::size_t pixel = at / static_cast<std::size_t>(channels);
  const auto x = static_cast<int>(pixel % static_cast<std::size_t>(width));
  const std::size_t row = pixel / static_cast<std::size_t>(width);
  return {row / static_cast<std::size_t>(height), static_cast<int>(row % static_cast<std::size_t>(height)), x,
          channel};
}
__device__ inline std::size_t element_at(const ImagePlace& of, int y, int x, int height, int width,
                                         int channels) {
  const std::size_t row = of.image * static_cast<std::size_t>(height) + static_cast<std::size_t>(y);
  return (row * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) *
             static_cast<std::size_t>(channels) +
         static_cast<std::size_t>(of.channel);
}

/// count: of `out`.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_max_pool(std::size_t count, PoolSizes s, const Bf16* images, Bf16* out, std::uint8_t* places) {
  for_each_group<1>(count, [=](std::size_t at) {
    const ImagePlace to = image_place(at, s.out_height, s.out_width, s.channels);
    float best = 0.0f;
    int which = -1;
    for (int place = 0; place < s.window * s.window; ++place) {
      const int y = to.y * s.stride - s.padding + place / s.window,
                x = to.x * s.stride - s.padding + place % s.window;
      if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
      const Bf16 here = images[element_at(to, y, x, s.height, s.width, s.channels)];
      const float value = widen(here);
      const bool is_nan = (here.bits & 0x7fff) > 0x7f80;  // counts as largest
      if (which >= 0 && !(value > best) && !is_nan) continue;
      best = value;
      which = place;
    }
    out[at] = narrow(best);
    places[at] = static_cast<std::uint8_t>(which);
  });
}

/// count: of `d_images`. Each adds the gradients of the windows that took its pixel.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_max_pool_backward(std::size_t count, PoolSizes s, const std::uint8_t* places, const Bf16* d_out,
                             Bf16* d_images) {
  for_each_group<1>(count, [=](std::size_t at) {
    const ImagePlace from = image_place(at, s.height, s.width, s.channels);
    float sum = 0.0f;
    for (int place = s.window * s.window - 1; place >= 0; --place) {
      const int top = from.y + s.padding - place / s.window, left = from.x + s.padding - place % s.window;
      if (top < 0 || left < 0 || top % s.stride != 0 || left % s.stride != 0) continue;
      const int y = top / s.stride, x = left / s.stride;
      if (y >= s.out_height || x >= s.out_width) continue;
      const std::size_t window = element_at(from, y, x, s.out_height, s.out_width, s.channels);
      if (static_cast<int>(places[window]) == place) sum += widen(d_out[window]);
    }
    d_images[at] = narrow(sum);
  });
}

/// out [batch, channels], of `count` elements = the means of `pixels` pixels.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_mean_pool(std::size_t count, std::size_t pixels, std::size_t channels, const Bf16* images,
                     Bf16* out) {
  for_each_group<1>(count, [=](std::size_t at) {
    const Bf16* const from = images + at / channels * pixels * channels + at % channels;
    float sum = 0.0f;
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) sum += widen(from[pixel * channels]);
    out[at] = narrow(sum / static_cast<float>(pixels));
  });
}

/// count: of `d_images`.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_mean_pool_backward(std::size_t count, std::size_t pixels, std::size_t channels, const Bf16* d_out,
                              Bf16* d_images) {
  for_each_group<1>(count, [=](std::size_t at) {
    d_images[at] = narrow(factor_at(d_out, at, pixels, channels) / static_cast<float>(pixels));
  });
}

/// count: of `out`.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_shortcut(std::size_t count, ShortcutSizes s, const Bf16* images, Bf16* out) {
  for_each_group<1>(count, [=](std::size_t at) {
    ImagePlace place = image_place(at, (s.height + 1) / 2, (s.width + 1) / 2, s.out_channels);
    place.channel -= s.front;
    const bool zero = place.channel < 0 || place.channel >= s.channels;
    out[at] = zero ? narrow(0.0f)
                   : images[element_at(place, 2 * place.y, 2 * place.x, s.height, s.width, s.channels)];
  });
}

/// count: of `d_images`.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_shortcut_backward(std::size_t count, ShortcutSizes s, const Bf16* d_out, Bf16* d_images) {
  for_each_group<1>(count, [=](std::size_t at) {
    ImagePlace place = image_place(at, s.height, s.width, s.channels);
    const bool zero = place.y % 2 != 0 || place.x % 2 != 0;
    place.channel += s.front;
    d_images[at] = zero ? narrow(0.0f)
                        : d_out[element_at(place, place.y / 2, place.x / 2, (s.height + 1) / 2,
                                           (s.width + 1) / 2, s.out_channels)];
  });
}

/// *correct = the number of rows whose largest logit, the first of equal ones, is the target's. One block.
extern "C" __global__ void __launch_bounds__(element_threads)
    muster_count_correct(int rows, int classes, const Bf16* logits, const std::uint32_t* targets,
                         double* correct) {
  MUSTER_SHARED_BYTES(shared);
  double count = 0;
  for (int row = static_cast<int>(threadIdx.x); row < rows; row += static_cast<int>(blockDim.x)) {
    const Bf16* const at = logits + static_cast<std::ptrdiff_t>(row) * classes;
    int best = 0;
    for (int i = 1; i < classes; ++i) {
      if (widen(at[i]) > widen(at[best])) best = i;
    }
    if (best == static_cast<int>(targets[row])) count += 1;
  }
  count = sum_of_block(count, reinterpret_cast<double*>(shared));
  if (threadIdx.x == 0) *correct = count;
}

}  // namespace muster::compute::cuda
