// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

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

/// A batch normalization of x [batch, pixels, channels] (Ioffe and Szegedy, arXiv 1502.03167):
/// out = (x - mean) * rstd * gain + bias (+ addend, unless null), then ReLU if `relu`, with PyTorch's epsilon
/// 1e-5.
template <typename Real>
struct BatchNorm {
  using Sum = Accurate<Real>;
  /// Adds values over all ranks, in place. They are in the memory of the compute, and those on a GPU are
  /// added on its stream.
  using AllReduce = std::function<void(std::span<double>)>;

  int batch = 0, pixels = 0, channels = 0;
  const Real* x = nullptr;
  const Sum *gain = nullptr, *bias = nullptr;
  const Real* addend = nullptr;
  bool relu = false;
  Real* out = nullptr;
  Sum *mean = nullptr, *rstd = nullptr;  ///< of the batch: written forward and read backward
  /// Not null: statistics are those of all ranks' batches together, which every rank has to compute then.
  const AllReduce* all_reduce = nullptr;

  std::size_t rows() const { return static_cast<std::size_t>(batch) * static_cast<std::size_t>(pixels); }
};

inline constexpr double batch_norm_epsilon = 1e-5;

/// The operations of image models beside matrix products, on one device. Images are [batch, height, width,
/// channels], "rows" are the pixels of all images. A ReLU leaves NaN as it is, so that it shows in the loss.
/// A call returns when its result may be used by the next call. Not thread-safe.
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

  /// With the batch's statistics. batch_mean and batch_variance get `share`, at most 1, times its mean and
  /// its unbiased variance.
  virtual void normalize(const BatchNorm<Real>& norm, Sum* batch_mean, Sum* batch_variance, double share) = 0;
  /// With these statistics instead.
  virtual void normalize_by(const BatchNorm<Real>& norm, const Sum* mean, const Sum* variance) = 0;
  /// d_out + d_also (if not null) is the gradient of `out`. d_out becomes that of the addend, unless it is
  /// d_x. Overwrites d_x, d_gain and d_bias; these two are this rank's own part. May overwrite norm.out.
  virtual void normalize_backward(const BatchNorm<Real>& norm, Real* d_out, const Real* d_also, Real* d_x,
                                  Sum* d_gain, Sum* d_bias) = 0;

  /// The largest of each window, the first of equal ones; NaN counts as largest. `places`, of out's size,
  /// gets its place in the window, row by row.
  virtual void max_pool(const PoolShape& shape, const Real* images, Real* out, std::uint8_t* places) = 0;
  /// Overwrites d_images.
  virtual void max_pool_backward(const PoolShape& shape, const std::uint8_t* places, const Real* d_out,
                                 Real* d_images) = 0;
  /// out = max(0, factor[image, channel] * x), factors at or above 0; null: 1. `out` is not `x`.
  virtual void relu(int batch, std::size_t pixels, int channels, const Real* x, const Real* factor,
                    Real* out) = 0;
  /// Overwrites d_x, which is neither d_out nor out.
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
  /// The number of rows whose largest logit (the first of equal ones) is the target's. Waits.
  virtual std::int64_t count_correct(const Real* logits, const Token* targets, int rows, int classes) = 0;
  /// Compute::compute_cross_entropy() of logits [rows, classes], without padding.
  virtual void compute_cross_entropy(Real* logits, const Token* targets, int rows, int classes,
                                     Sum gradient_scale) = 0;
  /// An array of the host as the operations may read it until the next call. The host may change its own
  /// then, unless it is what is returned. `most`: elements that a later call may send.
  virtual const Real* send(const Real* host, std::size_t count, std::size_t most) = 0;
};

}  // namespace muster::compute
