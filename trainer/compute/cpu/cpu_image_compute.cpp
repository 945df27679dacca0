// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/cpu_image_compute.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "compute/cpu/parallel_for.hpp"
#include "compute/cpu/unfolded_convolution.hpp"
#include "compute/cpu/upcast_convolution.hpp"

namespace muster::compute::cpu {
namespace {

/// Calls f(image) for all images, over the threads. `elements`: of all images together.
template <typename F>
void for_each_image(int threads, int batch, std::size_t elements, F&& f) {
  parallel_for(threads, static_cast<std::size_t>(batch), 1, elements,
               [&](std::size_t begin, std::size_t end) {
                 for (auto image = static_cast<std::ptrdiff_t>(begin);
                      image < static_cast<std::ptrdiff_t>(end); ++image)
                   f(image);
               });
}

std::size_t pool_elements(const PoolShape& s) {
  return static_cast<std::size_t>(s.batch) * static_cast<std::size_t>(s.height) *
         static_cast<std::size_t>(s.width) * static_cast<std::size_t>(s.channels);
}

/// Calls f(pixel in the large images, pixel in the small ones) for every second pixel of one image.
template <typename F>
void for_every_second_pixel(std::ptrdiff_t image, int height, int width, F&& f) {
  std::ptrdiff_t small = image * ((height + 1) / 2) * ((width + 1) / 2);
  for (int y = 0; y < height; y += 2) {
    for (int x = 0; x < width; x += 2, ++small) f((image * height + y) * width + x, small);
  }
}

/// oneDNN's convolutions. Null when it has none.
template <typename Real>
std::unique_ptr<Convolution<Real>> fast_convolution(int threads) {
  auto convolution = dnnl_convolution(static_cast<const Real*>(nullptr));
  if constexpr (std::is_same_v<Real, bfloat16>) {
    auto wide = convolution ? nullptr : dnnl_convolution(static_cast<const float*>(nullptr));
    if (wide) return std::make_unique<UpcastConvolution>(std::move(wide), threads);
  }
  return convolution;
}

}  // namespace

template <typename Real>
CpuImageCompute<Real>::CpuImageCompute(Compute<Real>& compute, const Kernels<Real>& kernels, bool use_dnnl)
    : compute_(compute), threads_(compute.threads()), kernels_(kernels), batch_norm_(threads_, kernels) {
  if (use_dnnl) convolution_ = fast_convolution<Real>(threads_);
  if (!convolution_) convolution_ = std::make_unique<UnfoldedConvolution<Real>>(compute);
}

template <typename Real>
void CpuImageCompute<Real>::convolve(const ConvolutionShape& shape, const Real* images, const Real* weight,
                                     const Real* bias, Real* out) {
  if (is_product(shape)) {
    const int rows = shape.batch * shape.height * shape.width;
    return compute_.matmul({rows, shape.out, shape.in, false, true, bias != nullptr, false}, images, weight,
                           bias, out);
  }
  convolution_->forward(shape, images, weight, bias, out);
}

template <typename Real>
void CpuImageCompute<Real>::convolve_backward_images(const ConvolutionShape& shape, const Real* d_out,
                                                     const Real* weight, Real* d_images) {
  if (is_product(shape)) {
    const int rows = shape.batch * shape.height * shape.width;
    return compute_.matmul({rows, shape.in, shape.out, false, false, false, false}, d_out, weight, nullptr,
                           d_images);
  }
  convolution_->backward_images(shape, d_out, weight, d_images);
}

template <typename Real>
void CpuImageCompute<Real>::convolve_backward_weight(const ConvolutionShape& shape, const Real* images,
                                                     const Real* d_out, Sum* d_weight, Sum* d_bias) {
  if (is_product(shape)) {
    const int rows = shape.batch * shape.height * shape.width;
    return compute_.weight_gradient(rows, shape.in, shape.out, images, d_out, d_weight, d_bias);
  }
  if (is_small_depthwise(shape) && d_bias == nullptr)
    return small_depthwise_weight(shape, images, d_out, d_weight);
  convolution_->backward_weight(shape, images, d_out, d_weight, d_bias);
}

template <typename Real>
void CpuImageCompute<Real>::small_depthwise_weight(const ConvolutionShape& s, const Real* images,
                                                   const Real* d_out, Sum* d_weight) {
  constexpr std::size_t group = 8;  // images; fixed, so that sums do not depend on the number of threads
  const auto batch = static_cast<std::size_t>(s.batch), places = std::size_t{9},
             channels = static_cast<std::size_t>(s.in), in = s.in_pixels() * channels,
             out = s.out_pixels() * channels, groups = (batch + group - 1) / group;
  if (partial_.size() < groups * places * channels) partial_ = Arena<Sum>(groups * places * channels);
  parallel_for(threads_, groups, 1, batch * out * places, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      kernels_.depthwise.weight(s, images + i * group * in, d_out + i * group * out,
                                static_cast<int>(std::min(group, batch - i * group)),
                                partial_.data() + i * places * channels);
    }
  });
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t place = 0; place < places; ++place) {
      Sum sum = 0;
      for (std::size_t i = 0; i < groups; ++i)
        sum += partial_.data()[(i * places + place) * channels + channel];
      d_weight[channel * places + place] = sum;
    }
  }
}

template <typename Real>
void CpuImageCompute<Real>::normalize(const BatchNorm<Real>& norm, Sum* batch_mean, Sum* batch_variance,
                                      double share) {
  batch_norm_.normalize(norm, batch_mean, batch_variance, share);
}

template <typename Real>
void CpuImageCompute<Real>::normalize_by(const BatchNorm<Real>& norm, const Sum* mean, const Sum* variance) {
  batch_norm_.normalize_by(norm, mean, variance);
}

template <typename Real>
void CpuImageCompute<Real>::normalize_backward(const BatchNorm<Real>& norm, Real* d_out, const Real* d_also,
                                               Real* d_x, Sum* d_gain, Sum* d_bias) {
  batch_norm_.backward(norm, d_out, d_also, d_x, d_gain, d_bias);
}

template <typename Real>
void CpuImageCompute<Real>::max_pool(const PoolShape& s, const Real* images, Real* out,
                                     std::uint8_t* places) {
  const std::ptrdiff_t in_size = std::ptrdiff_t{s.height} * s.width * s.channels,
                       out_size = std::ptrdiff_t{s.out_height()} * s.out_width() * s.channels;
  for_each_image(threads_, s.batch, pool_elements(s), [&](std::ptrdiff_t image) {
    kernels_.pool.max_pool(s, images + image * in_size, out + image * out_size, places + image * out_size);
  });
}

template <typename Real>
void CpuImageCompute<Real>::max_pool_backward(const PoolShape& s, const std::uint8_t* places,
                                              const Real* d_out, Real* d_images) {
  const std::ptrdiff_t in_size = std::ptrdiff_t{s.height} * s.width * s.channels,
                       out_size = std::ptrdiff_t{s.out_height()} * s.out_width() * s.channels;
  for_each_image(threads_, s.batch, pool_elements(s), [&](std::ptrdiff_t image) {
    kernels_.pool.max_pool_backward(s, places + image * out_size, d_out + image * out_size,
                                    d_images + image * in_size);
  });
}

template <typename Real>
void CpuImageCompute<Real>::relu(int batch, std::size_t pixels, int channels, const Real* x,
                                 const Real* factor, Real* out) {
  const auto size = static_cast<std::ptrdiff_t>(pixels) * channels;
  for_each_image(threads_, batch, static_cast<std::size_t>(batch * size), [&](std::ptrdiff_t image) {
    kernels_.relu.relu(static_cast<int>(pixels), channels, x + image * size,
                       factor ? factor + image * channels : nullptr, out + image * size);
  });
}

template <typename Real>
void CpuImageCompute<Real>::relu_backward(int batch, std::size_t pixels, int channels, const Real* out,
                                          const Real* factor, const Real* d_out, Real* d_x) {
  const auto size = static_cast<std::ptrdiff_t>(pixels) * channels;
  for_each_image(threads_, batch, static_cast<std::size_t>(batch * size), [&](std::ptrdiff_t image) {
    kernels_.relu.relu_backward(static_cast<int>(pixels), channels, out + image * size,
                                factor ? factor + image * channels : nullptr, d_out + image * size,
                                d_x + image * size);
  });
}

template <typename Real>
void CpuImageCompute<Real>::flatten(int batch, std::size_t pixels, int channels, const Real* from, bool back,
                                    Real* to) {
  const auto count = static_cast<std::ptrdiff_t>(pixels);
  for_each_image(threads_, batch, pixels * static_cast<std::size_t>(batch * channels),
                 [&](std::ptrdiff_t image) {
                   const std::ptrdiff_t first = image * count * channels;
                   for (std::ptrdiff_t pixel = 0; pixel < count; ++pixel) {
                     for (std::ptrdiff_t channel = 0; channel < channels; ++channel) {
                       const std::ptrdiff_t last = first + pixel * channels + channel,
                                            flat = first + channel * count + pixel;
                       to[back ? last : flat] = from[back ? flat : last];
                     }
                   }
                 });
}

template <typename Real>
std::int64_t CpuImageCompute<Real>::count_correct(const Real* logits, const Token* targets, int rows,
                                                  int classes) {
  std::int64_t right = 0;
  for (std::ptrdiff_t row = 0; row < rows; ++row) {
    const Real* at = logits + row * classes;
    const auto less = [](Real x, Real y) { return Sum(x) < Sum(y); };
    right += std::max_element(at, at + classes, less) - at == targets[row] ? 1 : 0;
  }
  return right;
}

template <typename Real>
void CpuImageCompute<Real>::compute_cross_entropy(Real* logits, const Token* targets, int rows, int classes,
                                                  Sum gradient_scale) {
  compute_.compute_cross_entropy(logits, targets, rows, classes, gradient_scale);
}

template <typename Real>
void CpuImageCompute<Real>::mean_pool(int batch, std::size_t pixels, int channels, const Real* images,
                                      Real* out) {
  const std::size_t size = pixels * static_cast<std::size_t>(channels);
  for_each_image(threads_, batch, static_cast<std::size_t>(batch) * size, [&](std::ptrdiff_t image) {
    const Real* from = images + image * static_cast<std::ptrdiff_t>(size);
    for (std::ptrdiff_t channel = 0; channel < channels; ++channel) {
      Sum sum = 0;
      for (std::ptrdiff_t pixel = 0; pixel < static_cast<std::ptrdiff_t>(pixels); ++pixel)
        sum += Sum(from[pixel * channels + channel]);
      out[image * channels + channel] = Real(sum / Sum(pixels));
    }
  });
}

template <typename Real>
void CpuImageCompute<Real>::mean_pool_backward(int batch, std::size_t pixels, int channels, const Real* d_out,
                                               Real* d_images) {
  const std::size_t size = pixels * static_cast<std::size_t>(channels);
  for_each_image(threads_, batch, static_cast<std::size_t>(batch) * size, [&](std::ptrdiff_t image) {
    Real* to = d_images + image * static_cast<std::ptrdiff_t>(size);
    for (std::ptrdiff_t pixel = 0; pixel < static_cast<std::ptrdiff_t>(pixels); ++pixel) {
      for (std::ptrdiff_t channel = 0; channel < channels; ++channel)
        to[pixel * channels + channel] = Real(Sum(d_out[image * channels + channel]) / Sum(pixels));
    }
  });
}

template <typename Real>
void CpuImageCompute<Real>::shortcut(int batch, int height, int width, int channels, int out_channels,
                                     const Real* images, Real* out) {
  const int front = (out_channels - channels) / 2;
  const std::size_t elements = static_cast<std::size_t>(batch) * static_cast<std::size_t>(height) *
                               static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  for_each_image(threads_, batch, elements, [&](std::ptrdiff_t image) {
    for_every_second_pixel(image, height, width, [&](std::ptrdiff_t large, std::ptrdiff_t small) {
      Real* to = out + small * out_channels;
      std::fill_n(to, out_channels, Real{});
      std::copy_n(images + large * channels, channels, to + front);
    });
  });
}

template <typename Real>
void CpuImageCompute<Real>::shortcut_backward(int batch, int height, int width, int channels,
                                              int out_channels, const Real* d_out, Real* d_images) {
  const int front = (out_channels - channels) / 2;
  const std::ptrdiff_t size = std::ptrdiff_t{height} * width * channels;
  for_each_image(threads_, batch, static_cast<std::size_t>(batch * size), [&](std::ptrdiff_t image) {
    std::fill_n(d_images + image * size, size, Real{});
    for_every_second_pixel(image, height, width, [&](std::ptrdiff_t large, std::ptrdiff_t small) {
      std::copy_n(d_out + small * out_channels + front, channels, d_images + large * channels);
    });
  });
}

template <typename Real>
void CpuImageCompute<Real>::add(const Real* from, Real* to, std::size_t count) {
  parallel_for(threads_, count, 32, count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) to[i] = Real(Sum(to[i]) + Sum(from[i]));
  });
}

template class CpuImageCompute<float>;
template class CpuImageCompute<double>;
template class CpuImageCompute<bfloat16>;

}  // namespace muster::compute::cpu
