// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/precision.hpp"
#include "compute/token.hpp"

namespace muster::compute {

/// A square window that moves over images [batch, height, width, in] with zeros around them; the result is
/// [batch, out_height(), out_width(), out]. Weights are [out, in / groups, window, window], as PyTorch keeps
/// them. `groups` is 1, or `in` (depthwise: then `out` is `in` too).
struct ConvolutionShape {
  int batch = 0, height = 0, width = 0, in = 0, out = 0;
  int window = 1, stride = 1, padding = 0, groups = 1;

  int out_height() const { return (height + 2 * padding - window) / stride + 1; }
  int out_width() const { return (width + 2 * padding - window) / stride + 1; }
  std::size_t in_pixels() const { return static_cast<std::size_t>(height) * static_cast<std::size_t>(width); }
  std::size_t out_pixels() const {
    return static_cast<std::size_t>(out_height()) * static_cast<std::size_t>(out_width());
  }
  std::size_t weights() const {
    return static_cast<std::size_t>(out) * static_cast<std::size_t>(in / groups) *
           static_cast<std::size_t>(window * window);
  }
  bool operator==(const ConvolutionShape&) const = default;
};

/// A window whose largest pixel is kept, for each channel. Pixels outside of the image do not count.
struct PoolShape {
  int batch = 0, height = 0, width = 0, channels = 0;
  int window = 2, stride = 2, padding = 0;

  int out_height() const { return (height + 2 * padding - window) / stride + 1; }
  int out_width() const { return (width + 2 * padding - window) / stride + 1; }
};

/// The operations of image models beside matrix products, on one device. Images are [batch, height, width,
/// channels], "rows" are the pixels of all images. A ReLU leaves NaN as it is, so that it shows in the loss.
/// Not thread-safe.
template <typename Real>
class ImageCompute {
 public:
  using Sum = Accurate<Real>;
  virtual ~ImageCompute() = default;

  /// `bias` [out] may be null.
  virtual void convolve(const ConvolutionShape& shape, const Real* images, const Real* weight,
                        const Real* bias, Real* out) = 0;
  /// Overwrites d_images.
  virtual void convolve_backward_images(const ConvolutionShape& shape, const Real* d_out, const Real* weight,
                                        Real* d_images) = 0;
  /// Overwrites d_weight and, unless it is null, d_bias.
  virtual void convolve_backward_weight(const ConvolutionShape& shape, const Real* images, const Real* d_out,
                                        Sum* d_weight, Sum* d_bias) = 0;

  /// Per channel of x [rows, channels]: the mean and the sum of squared differences from it.
  virtual void batch_moments(std::size_t rows, int channels, const Real* x, double* mean,
                             double* squares) = 0;
  /// out = scale * x + shift (+ addend, unless null), then ReLU if `relu`; scale and shift per channel.
  virtual void scale_and_shift(std::size_t rows, int channels, const Real* x, const Sum* scale,
                               const Sum* shift, const Real* addend, bool relu, Real* out) = 0;
  /// The sums that the gradient of a batch normalization needs. With g = d_out + d_also (if not null), zero
  /// where `out` (if not null: after a ReLU) is not positive, per channel: sum of g, and dot = the sum of g *
  /// (x - mean). Overwrites d_out with g.
  virtual void batch_gradient_sums(std::size_t rows, int channels, const Real* x, const Sum* mean,
                                   const Real* out, Real* d_out, const Real* d_also, double* sum,
                                   double* dot) = 0;
  /// d_x = by_g * g + by_x * (x - mean) + constant, all four factors per channel. d_x may be g.
  virtual void batch_gradient(std::size_t rows, int channels, const Real* x, const Real* g, const Sum* mean,
                              const Sum* by_g, const Sum* by_x, const Sum* constant, Real* d_x) = 0;

  /// The largest of each window, the first of equal ones; NaN counts as largest. `places`, of out's size,
  /// gets its place in the window, row by row.
  virtual void max_pool(const PoolShape& shape, const Real* images, Real* out, std::uint8_t* places) = 0;
  /// Overwrites d_images.
  virtual void max_pool_backward(const PoolShape& shape, const std::uint8_t* places, const Real* d_out,
                                 Real* d_images) = 0;
  /// out = max(0, factor[image, channel] * x), factors at or above 0; null: 1.
  virtual void relu(int batch, std::size_t pixels, int channels, const Real* x, const Real* factor,
                    Real* out) = 0;
  /// Overwrites d_x.
  virtual void relu_backward(int batch, std::size_t pixels, int channels, const Real* out, const Real* factor,
                             const Real* d_out, Real* d_x) = 0;
  /// From [batch, pixels, channels] to [batch, channels, pixels], as PyTorch flattens images, or, if `back`,
  /// the other way.
  virtual void flatten(int batch, std::size_t pixels, int channels, const Real* from, bool back,
                       Real* to) = 0;
  /// out [batch, channels] = the mean of each image's `pixels` pixels.
  virtual void mean_pool(int batch, std::size_t pixels, int channels, const Real* images, Real* out) = 0;
  virtual void mean_pool_backward(int batch, std::size_t pixels, int channels, const Real* d_out,
                                  Real* d_images) = 0;
  /// Every second pixel of images [batch, height, width, channels], with (out_channels - channels) / 2 zero
  /// channels in front and the others behind: option A of He et al., arXiv 1512.03385, section 4.2.
  virtual void shortcut(int batch, int height, int width, int channels, int out_channels, const Real* images,
                        Real* out) = 0;
  virtual void shortcut_backward(int batch, int height, int width, int channels, int out_channels,
                                 const Real* d_out, Real* d_images) = 0;
  /// to += from.
  virtual void add(const Real* from, Real* to, std::size_t count) = 0;
  /// The number of rows whose largest logit (the first of equal ones) is the target's.
  virtual std::int64_t count_correct(const Real* logits, const Token* targets, int rows, int classes) = 0;
};

}  // namespace muster::compute
