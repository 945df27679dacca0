// SPDX-License-Identifier: Apache-2.0
// The operations of image models beside matrix products, on host memory, for float, double and bfloat16.
// `threads` share the images of a batch. NaN stays NaN, so that it shows in the run's loss.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/token.hpp"

namespace muster::compute::cpu {

/// A square window that moves over every image of [batch, height, width, channels].
struct UnfoldShape {
  int batch = 0, height = 0, width = 0, channels = 0, window = 0;
  int out_height() const { return height - window + 1; }
  int out_width() const { return width - window + 1; }
  /// Window positions in all images.
  int window_positions() const { return batch * out_height() * out_width(); }
  int window_size() const { return channels * window * window; }
};

/// Pooling of 2 x 2 pixels; height and width are even.
struct FourPixelShape {
  int batch = 0, height = 0, width = 0, channels = 0;
  /// out is [batch, channels, height / 2, width / 2], else channels are last
  bool channels_first_out = false;
};

/// columns[position, (channel, y, x)] = the window's pixels: a convolution is then a product with weights
/// [out, channels, window, window].
template <typename Real>
void unfold(int threads, const UnfoldShape& shape, const Real* images, Real* columns);
/// The transpose of unfold(): overwrites each pixel of d_images with the sum of its entries in d_columns.
template <typename Real>
void fold(int threads, const UnfoldShape& shape, const Real* d_columns, Real* d_images);

/// out = max(0, scale[image, channel] * the largest of each 2 x 2 pixels of images [batch, height, width,
/// channels]). scale >= 0; null: 1.
template <typename Real>
void max_pool_relu(int threads, const FourPixelShape& shape, const Real* images, const Real* scale,
                   Real* out);
/// Overwrites d_images. The first of equal largest pixels gets the gradient.
template <typename Real>
void max_pool_relu_backward(int threads, const FourPixelShape& shape, const Real* images, const Real* scale,
                            const Real* out, const Real* d_out, Real* d_images);

/// out = max(0, scale * x), [count]; scale >= 0, null: 1.
template <typename Real>
void relu(const Real* x, const Real* scale, Real* out, std::size_t count);
/// Replaces d_inout, the gradient of out, by the gradient of x.
template <typename Real>
void relu_backward(const Real* out, const Real* scale, Real* d_inout, std::size_t count);

/// The number of rows whose largest logit (the first of equal ones) is the target's.
template <typename Real>
std::int64_t count_correct(const Real* logits, const Token* targets, int rows, int classes);

}  // namespace muster::compute::cpu
