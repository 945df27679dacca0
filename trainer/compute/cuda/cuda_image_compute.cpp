// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda_image_compute.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "compute/cuda/cuda_compute.hpp"
#include "compute/cuda/geometry.hpp"
#include "compute/cuda/kernels/image_sizes.hpp"
#include "compute/cuda/kernels/launch_sizes.hpp"

namespace muster::compute::cuda {

using namespace sizes;

namespace {

constexpr const bfloat16* nothing = nullptr;

std::size_t elements(int batch, std::size_t pixels, int channels) {
  return cuda::elements(batch, channels) * pixels;
}
std::size_t out_elements(const PoolShape& s) {
  return elements(s.batch, cuda::elements(s.out_height(), s.out_width()), s.channels);
}
std::size_t elements(const BatchNorm<bfloat16>& norm) {
  return norm.rows() * static_cast<std::size_t>(norm.channels);
}

PoolSizes to_sizes(const PoolShape& s) {
  return {s.height, s.width, s.channels, s.window, s.stride, s.padding, s.out_height(), s.out_width()};
}

}  // namespace

CudaImageCompute::Handle::Handle(const CudnnLibrary& library, CUstream stream) : cudnn(library) {
  cudnn.require(cudnn.create(&value), "cudnnCreate");
  cudnn.require(cudnn.set_stream(value, stream), "cudnnSetStream");
}

CudaImageCompute::Handle::~Handle() { cudnn.destroy(value); }

CudaImageCompute::CudaImageCompute(CudaCompute& compute)
    : compute_(compute),
      gpu_(compute.gpu()),
      handle_(cudnn_, gpu_.stream()),
      convolution_(gpu_, cudnn_, handle_.value),
      batch_norm_(gpu_, cudnn_, handle_.value),
      sync_batch_norm_(compute, batch_norm_),
      inputs_(gpu_),
      targets_(gpu_) {}

template <typename... Arguments>
void CudaImageCompute::launch(Kernel kernel, std::size_t each, std::size_t count, Arguments... arguments) {
  const std::size_t threads = (count + each - 1) / each;
  gpu_.launch(kernel,
              {std::min<std::size_t>((threads + element_threads - 1) / element_threads, most_element_blocks)},
              element_threads, 0, count, arguments...);
}

const bfloat16* CudaImageCompute::to_channels_last(const ConvolutionShape& s, const bfloat16* weight) {
  const auto in = static_cast<std::size_t>(s.in / s.groups), places = cuda::elements(s.window, s.window);
  if (in == 1 || places == 1) return weight;
  bfloat16* const last = compute_.scratch(weight_, s.weights());
  launch(Kernel::transpose, 1, s.weights(), in, places, weight, last);
  return last;
}

void CudaImageCompute::convolve(const ConvolutionShape& s, const bfloat16* images, const bfloat16* weight,
                                const bfloat16* bias, bfloat16* out) {
  convolution_.forward(s, images, to_channels_last(s, weight), out);
  if (bias == nullptr) return;
  launch(Kernel::add_bias, 1, elements(s.batch, s.out_pixels(), s.out), static_cast<std::size_t>(s.out), bias,
         out);
}

void CudaImageCompute::convolve_backward_images(const ConvolutionShape& s, const bfloat16* d_out,
                                                const bfloat16* weight, bfloat16* d_images) {
  convolution_.backward_images(s, d_out, to_channels_last(s, weight), d_images);
}

void CudaImageCompute::convolve_backward_weight(const ConvolutionShape& s, const bfloat16* images,
                                                const bfloat16* d_out, float* d_weight, float* d_bias) {
  const auto in = static_cast<std::size_t>(s.in / s.groups), places = cuda::elements(s.window, s.window);
  bfloat16* const last = compute_.scratch(weight_, s.weights());
  convolution_.backward_weight(s, images, d_out, last);
  launch(Kernel::transpose_to_float, 1, s.weights(), places, in, static_cast<const bfloat16*>(last),
         d_weight);
  if (d_bias == nullptr) return;
  const auto channels = static_cast<std::size_t>(s.out);
  gpu_.launch(Kernel::channel_sums, {channels}, element_threads, sum_bytes,
              static_cast<std::size_t>(s.batch) * s.out_pixels(), channels, d_out, d_bias);
}

void CudaImageCompute::finish(const BatchNorm<bfloat16>& norm) {
  if (norm.addend == nullptr && !norm.relu) return;
  launch(Kernel::add_relu, 8, elements(norm), static_cast<const bfloat16*>(norm.out), norm.addend,
         norm.relu ? 1 : 0, norm.out);
}

void CudaImageCompute::normalize(const BatchNorm<bfloat16>& norm, float* batch_mean, float* batch_variance,
                                 double share) {
  if (norm.all_reduce != nullptr) {
    sync_batch_norm_.normalize(norm, batch_mean, batch_variance, share);
  } else {
    batch_norm_.normalize(norm, batch_mean, batch_variance, share);
  }
  finish(norm);
}

void CudaImageCompute::normalize_by(const BatchNorm<bfloat16>& norm, const float* mean,
                                    const float* variance) {
  batch_norm_.normalize_by(norm, mean, variance);
  finish(norm);
}

// cuDNN does not say that it computes in place, and the layer's output is no longer needed.
void CudaImageCompute::normalize_backward(const BatchNorm<bfloat16>& norm, bfloat16* d_out,
                                          const bfloat16* d_also, bfloat16* d_x, float* d_gain,
                                          float* d_bias) {
  bfloat16* const g = d_x == d_out ? norm.out : d_out;
  if (norm.relu || d_also != nullptr || g != d_out) {
    launch(Kernel::add_relu_backward, 8, elements(norm),
           norm.relu ? static_cast<const bfloat16*>(norm.out) : nothing, static_cast<const bfloat16*>(d_out),
           d_also, g);
  }
  if (norm.all_reduce != nullptr) return sync_batch_norm_.backward(norm, g, d_x, d_gain, d_bias);
  batch_norm_.backward(norm, g, d_x, d_gain, d_bias);
}

void CudaImageCompute::max_pool(const PoolShape& s, const bfloat16* images, bfloat16* out,
                                std::uint8_t* places) {
  launch(Kernel::max_pool, 1, out_elements(s), to_sizes(s), images, out, places);
}

void CudaImageCompute::max_pool_backward(const PoolShape& s, const std::uint8_t* places,
                                         const bfloat16* d_out, bfloat16* d_images) {
  launch(Kernel::max_pool_backward, 1, elements(s.batch, cuda::elements(s.height, s.width), s.channels),
         to_sizes(s), places, d_out, d_images);
}

void CudaImageCompute::relu(int batch, std::size_t pixels, int channels, const bfloat16* x,
                            const bfloat16* factor, bfloat16* out) {
  const std::size_t count = elements(batch, pixels, channels);
  if (factor == nullptr) return launch(Kernel::add_relu, 8, count, x, nothing, 1, out);
  launch(Kernel::scale_relu, 1, count, pixels, static_cast<std::size_t>(channels), x, factor, out);
}

void CudaImageCompute::relu_backward(int batch, std::size_t pixels, int channels, const bfloat16* out,
                                     const bfloat16* factor, const bfloat16* d_out, bfloat16* d_x) {
  const std::size_t count = elements(batch, pixels, channels);
  if (factor == nullptr) return launch(Kernel::add_relu_backward, 8, count, out, d_out, nothing, d_x);
  launch(Kernel::scale_relu_backward, 1, count, pixels, static_cast<std::size_t>(channels), out, factor,
         d_out, d_x);
}

void CudaImageCompute::flatten(int batch, std::size_t pixels, int channels, const bfloat16* from, bool back,
                               bfloat16* to) {
  const auto width = static_cast<std::size_t>(channels);
  launch(Kernel::transpose, 1, elements(batch, pixels, channels), back ? width : pixels,
         back ? pixels : width, from, to);
}

void CudaImageCompute::mean_pool(int batch, std::size_t pixels, int channels, const bfloat16* images,
                                 bfloat16* out) {
  launch(Kernel::mean_pool, 1, cuda::elements(batch, channels), pixels, static_cast<std::size_t>(channels),
         images, out);
}

void CudaImageCompute::mean_pool_backward(int batch, std::size_t pixels, int channels, const bfloat16* d_out,
                                          bfloat16* d_images) {
  launch(Kernel::mean_pool_backward, 1, elements(batch, pixels, channels), pixels,
         static_cast<std::size_t>(channels), d_out, d_images);
}

void CudaImageCompute::shortcut(int batch, int height, int width, int channels, int out_channels,
                                const bfloat16* images, bfloat16* out) {
  const ShortcutSizes s{height, width, channels, out_channels, (out_channels - channels) / 2};
  launch(Kernel::shortcut, 1,
         elements(batch, cuda::elements((height + 1) / 2, (width + 1) / 2), out_channels), s, images, out);
}

void CudaImageCompute::shortcut_backward(int batch, int height, int width, int channels, int out_channels,
                                         const bfloat16* d_out, bfloat16* d_images) {
  const ShortcutSizes s{height, width, channels, out_channels, (out_channels - channels) / 2};
  launch(Kernel::shortcut_backward, 1, elements(batch, cuda::elements(height, width), channels), s, d_out,
         d_images);
}

void CudaImageCompute::add(const bfloat16* from, bfloat16* to, std::size_t count) {
  launch(Kernel::add_relu, 8, count, static_cast<const bfloat16*>(to), from, 0, to);
}

std::int64_t CudaImageCompute::count_correct(const bfloat16* logits, const Token* targets, int rows,
                                             int classes) {
  const void* const on_device = targets_.send(targets, static_cast<std::size_t>(rows) * sizeof(Token));
  double* const correct = compute_.scratch(correct_, 1);
  gpu_.launch(Kernel::count_correct, {1}, element_threads, sum_bytes, rows, classes, logits, on_device,
              correct);
  double count = 0;
  gpu_.copy_out(&count, correct, sizeof count);
  return static_cast<std::int64_t>(count);
}

void CudaImageCompute::compute_cross_entropy(bfloat16* logits, const Token* targets, int rows, int classes,
                                             float gradient_scale) {
  const auto width = static_cast<std::size_t>(classes),
             padded_width = static_cast<std::size_t>(compute_.padded_classes(classes));
  const std::size_t count = cuda::elements(rows, classes),
                    padded_count = cuda::elements(rows, 1) * padded_width;
  bfloat16* const padded = compute_.scratch(logits_, padded_count);
  launch(Kernel::copy_rows, 1, padded_count, width, padded_width, static_cast<const bfloat16*>(logits),
         padded);
  compute_.compute_cross_entropy(padded, targets, rows, classes, gradient_scale);
  if (gradient_scale == 0) return;
  launch(Kernel::copy_rows, 1, count, padded_width, width, static_cast<const bfloat16*>(padded), logits);
}

const bfloat16* CudaImageCompute::send(const bfloat16* host, std::size_t count, std::size_t most) {
  return static_cast<const bfloat16*>(inputs_.send(host, count * sizeof(bfloat16), most * sizeof(bfloat16)));
}

}  // namespace muster::compute::cuda
