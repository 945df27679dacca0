// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/image_operations.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "compute/cpu/parallel_for.hpp"
#include "compute/precision.hpp"

namespace muster::compute::cpu {
namespace {

/// max(0, scale[i] * x); scale may be null.
template <typename Real>
Real scaled_positive_part(const Real* scale, std::ptrdiff_t i, Real x) {
  const Accurate<Real> value = scale ? Accurate<Real>(scale[i]) * Accurate<Real>(x) : Accurate<Real>(x);
  return value < 0 ? Real(0) : Real(value);
}

/// The gradient of x when out = scaled_positive_part(scale, i, x).
template <typename Real>
Real scaled_positive_part_backward(Real out, const Real* scale, std::ptrdiff_t i, Real d_out) {
  if (!(Accurate<Real>(out) > 0)) return Real(0);
  return scale ? Real(Accurate<Real>(scale[i]) * Accurate<Real>(d_out)) : d_out;
}

/// The index of the largest of the 2 x 2 pixels from `first` on, with `row` elements between rows.
template <typename Real>
std::ptrdiff_t largest_of_four(const Real* first, std::ptrdiff_t column, std::ptrdiff_t row) {
  std::ptrdiff_t best = 0;
  for (const std::ptrdiff_t at : {column, row, row + column}) {
    const auto value = Accurate<Real>(first[at]);
    if (value > Accurate<Real>(first[best]) || std::isnan(value)) best = at;
  }
  return best;
}

/// Calls f(image, channel, first of its 2 x 2 pixels, output) for every output of the images [begin, end).
template <typename F>
void for_each_pool(const FourPixelShape& s, std::size_t begin, std::size_t end, F&& f) {
  const std::ptrdiff_t out_height = s.height / 2, out_width = s.width / 2, channels = s.channels;
  for (auto image = static_cast<std::ptrdiff_t>(begin); image < static_cast<std::ptrdiff_t>(end); ++image) {
    for (std::ptrdiff_t y = 0; y < out_height; ++y) {
      for (std::ptrdiff_t x = 0; x < out_width; ++x) {
        for (std::ptrdiff_t channel = 0; channel < channels; ++channel) {
          const std::ptrdiff_t first = ((image * s.height + 2 * y) * s.width + 2 * x) * channels + channel;
          const std::ptrdiff_t out = s.channels_first_out
                                         ? ((image * channels + channel) * out_height + y) * out_width + x
                                         : ((image * out_height + y) * out_width + x) * channels + channel;
          f(image * channels + channel, first, out);
        }
      }
    }
  }
}

/// Calls f(offset in columns, offset in images, count) for runs of window pixels of one image and channel.
template <typename F>
void for_each_window_row(const UnfoldShape& s, std::size_t image, F&& f) {
  const std::ptrdiff_t channels = s.channels, window = s.window;
  std::ptrdiff_t to = static_cast<std::ptrdiff_t>(image) * s.out_height() * s.out_width() * s.window_size();
  for (std::ptrdiff_t y = 0; y < s.out_height(); ++y) {
    for (std::ptrdiff_t x = 0; x < s.out_width(); ++x) {
      for (std::ptrdiff_t channel = 0; channel < channels; ++channel) {
        for (std::ptrdiff_t row = 0; row < window; ++row, to += window) {
          f(to,
            ((static_cast<std::ptrdiff_t>(image) * s.height + y + row) * s.width + x) * channels + channel);
        }
      }
    }
  }
}

}  // namespace

template <typename Real>
void unfold(int threads, const UnfoldShape& s, const Real* images, Real* columns) {
  const auto batch = static_cast<std::size_t>(s.batch);
  parallel_for(threads, batch, 1, static_cast<std::size_t>(s.window_positions()) * s.window_size(),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t image = begin; image < end; ++image) {
                   for_each_window_row(s, image, [&](std::ptrdiff_t to, std::ptrdiff_t from) {
                     for (std::ptrdiff_t x = 0; x < s.window; ++x)
                       columns[to + x] = images[from + x * s.channels];
                   });
                 }
               });
}

template <typename Real>
void fold(int threads, const UnfoldShape& s, const Real* d_columns, Real* d_images) {
  const auto batch = static_cast<std::size_t>(s.batch);
  const std::size_t image_size = static_cast<std::size_t>(s.height) * s.width * s.channels;
  parallel_for(threads, batch, 1, static_cast<std::size_t>(s.window_positions()) * s.window_size(),
               [&](std::size_t begin, std::size_t end) {
                 std::vector<Accurate<Real>> sums(image_size);
                 for (std::size_t image = begin; image < end; ++image) {
                   const auto first = static_cast<std::ptrdiff_t>(image * image_size);
                   std::fill(sums.begin(), sums.end(), Accurate<Real>(0));
                   for_each_window_row(s, image, [&](std::ptrdiff_t from, std::ptrdiff_t to) {
                     Accurate<Real>* row = sums.data() + (to - first);
                     for (std::ptrdiff_t x = 0; x < s.window; ++x)
                       row[x * s.channels] += Accurate<Real>(d_columns[from + x]);
                   });
                   std::transform(sums.begin(), sums.end(), d_images + first,
                                  [](auto sum) { return Real(sum); });
                 }
               });
}

template <typename Real>
void max_pool_relu(int threads, const FourPixelShape& s, const Real* images, const Real* scale, Real* out) {
  const std::ptrdiff_t column = s.channels, row = std::ptrdiff_t{s.width} * s.channels;
  parallel_for(threads, static_cast<std::size_t>(s.batch), 1,
               static_cast<std::size_t>(s.batch) * s.height * s.width * s.channels,
               [&](std::size_t begin, std::size_t end) {
                 for_each_pool(
                     s, begin, end, [&](std::ptrdiff_t plane, std::ptrdiff_t first, std::ptrdiff_t to) {
                       const Real largest = images[first + largest_of_four(images + first, column, row)];
                       out[to] = scaled_positive_part(scale, plane, largest);
                     });
               });
}

template <typename Real>
void max_pool_relu_backward(int threads, const FourPixelShape& s, const Real* images, const Real* scale,
                            const Real* out, const Real* d_out, Real* d_images) {
  const std::ptrdiff_t column = s.channels, row = std::ptrdiff_t{s.width} * s.channels;
  const std::size_t image_size = static_cast<std::size_t>(s.height) * s.width * s.channels;
  parallel_for(threads, static_cast<std::size_t>(s.batch), 1, static_cast<std::size_t>(s.batch) * image_size,
               [&](std::size_t begin, std::size_t end) {
                 std::fill(d_images + begin * image_size, d_images + end * image_size, Real{});
                 for_each_pool(s, begin, end,
                               [&](std::ptrdiff_t plane, std::ptrdiff_t first, std::ptrdiff_t from) {
                                 d_images[first + largest_of_four(images + first, column, row)] =
                                     scaled_positive_part_backward(out[from], scale, plane, d_out[from]);
                               });
               });
}

template <typename Real>
void relu(const Real* x, const Real* scale, Real* out, std::size_t count) {
  for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(count); ++i)
    out[i] = scaled_positive_part(scale, i, x[i]);
}

template <typename Real>
void relu_backward(const Real* out, const Real* scale, Real* d_inout, std::size_t count) {
  for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(count); ++i)
    d_inout[i] = scaled_positive_part_backward(out[i], scale, i, d_inout[i]);
}

template <typename Real>
std::int64_t count_correct(const Real* logits, const Token* targets, int rows, int classes) {
  std::int64_t right = 0;
  for (std::ptrdiff_t row = 0; row < rows; ++row) {
    const Real* at = logits + row * classes;
    const auto less = [](Real x, Real y) { return Accurate<Real>(x) < Accurate<Real>(y); };
    right += std::max_element(at, at + classes, less) - at == targets[row] ? 1 : 0;
  }
  return right;
}

#define MUSTER_IMAGE_OPERATIONS(Real)                                                                     \
  template void unfold(int, const UnfoldShape&, const Real*, Real*);                                      \
  template void fold(int, const UnfoldShape&, const Real*, Real*);                                        \
  template void max_pool_relu(int, const FourPixelShape&, const Real*, const Real*, Real*);               \
  template void max_pool_relu_backward(int, const FourPixelShape&, const Real*, const Real*, const Real*, \
                                       const Real*, Real*);                                               \
  template void relu(const Real*, const Real*, Real*, std::size_t);                                       \
  template void relu_backward(const Real*, const Real*, Real*, std::size_t);                              \
  template std::int64_t count_correct(const Real*, const Token*, int, int);
MUSTER_IMAGE_OPERATIONS(float)
MUSTER_IMAGE_OPERATIONS(double)
MUSTER_IMAGE_OPERATIONS(bfloat16)
#undef MUSTER_IMAGE_OPERATIONS

}  // namespace muster::compute::cpu
