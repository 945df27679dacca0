// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/unfolded_convolution.hpp"

#include <algorithm>

#include "compute/cpu/parallel_for.hpp"

namespace muster::compute::cpu {
namespace {

int window_size(const ConvolutionShape& s) { return s.in / s.groups * s.window * s.window; }
int positions(const ConvolutionShape& s) { return s.out_height() * s.out_width(); }

/// Calls f(position, pixel, window place) for every pixel of one image in every window position; places are
/// counted row by row.
template <typename F>
void for_each_window_pixel(const ConvolutionShape& s, F&& f) {
  std::ptrdiff_t position = 0;
  for (int y = 0; y < s.out_height(); ++y) {
    for (int x = 0; x < s.out_width(); ++x, ++position) {
      for (int row = 0; row < s.window; ++row) {
        const int from_y = y * s.stride + row - s.padding;
        if (from_y < 0 || from_y >= s.height) continue;
        for (int column = 0; column < s.window; ++column) {
          const int from_x = x * s.stride + column - s.padding;
          if (from_x < 0 || from_x >= s.width) continue;
          f(position, std::ptrdiff_t{from_y} * s.width + from_x, row * s.window + column);
        }
      }
    }
  }
}

/// columns[position, (channel, y, x)] = the window's pixels of one image; zero outside of it.
template <typename Real>
void unfold(const ConvolutionShape& s, const Real* image, std::vector<Real>& columns) {
  const std::ptrdiff_t size = window_size(s), places = std::ptrdiff_t{s.window} * s.window;
  columns.assign(static_cast<std::size_t>(positions(s)) * static_cast<std::size_t>(size), Real{});
  for_each_window_pixel(s, [&](std::ptrdiff_t position, std::ptrdiff_t pixel, std::ptrdiff_t place) {
    Real* to = columns.data() + position * size + place;
    for (std::ptrdiff_t channel = 0; channel < s.in; ++channel)
      to[channel * places] = image[pixel * s.in + channel];
  });
}

std::ptrdiff_t in_at(const ConvolutionShape& s, std::size_t image) {
  return static_cast<std::ptrdiff_t>(image * s.in_pixels()) * s.in;
}
std::ptrdiff_t out_at(const ConvolutionShape& s, std::size_t image) {
  return static_cast<std::ptrdiff_t>(image * s.out_pixels()) * s.out;
}

/// Calls f(first image, last image) on all threads.
template <typename F>
void for_images(int threads, const ConvolutionShape& s, F&& f) {
  const auto batch = static_cast<std::size_t>(s.batch);
  parallel_for(threads, batch, 1, batch * s.out_pixels() * static_cast<std::size_t>(s.out), f);
}

}  // namespace

template <typename Real>
void UnfoldedConvolution<Real>::forward(const ConvolutionShape& s, const Real* images, const Real* weight,
                                        const Real* bias, Real* out) {
  if (s.groups == 1) {
    for (std::size_t image = 0; image < static_cast<std::size_t>(s.batch); ++image) {
      unfold(s, images + in_at(s, image), columns_);
      compute_.matmul({positions(s), s.out, window_size(s), false, true, bias != nullptr, false},
                      columns_.data(), weight, bias, out + out_at(s, image));
    }
    return;
  }
  const std::ptrdiff_t places = std::ptrdiff_t{s.window} * s.window;
  for_images(compute_.threads(), s, [&](std::size_t begin, std::size_t end) {
    std::vector<Sum> sums(s.out_pixels() * static_cast<std::size_t>(s.out));
    for (std::size_t image = begin; image < end; ++image) {
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] = bias ? Sum(bias[i % static_cast<std::size_t>(s.out)]) : Sum(0);
      const Real* from = images + in_at(s, image);
      for_each_window_pixel(s, [&](std::ptrdiff_t position, std::ptrdiff_t pixel, std::ptrdiff_t place) {
        for (std::ptrdiff_t channel = 0; channel < s.out; ++channel) {
          sums[static_cast<std::size_t>(position * s.out + channel)] +=
              Sum(from[pixel * s.in + channel]) * Sum(weight[channel * places + place]);
        }
      });
      std::transform(sums.begin(), sums.end(), out + out_at(s, image), [](Sum sum) { return Real(sum); });
    }
  });
}

template <typename Real>
void UnfoldedConvolution<Real>::backward_images(const ConvolutionShape& s, const Real* d_out,
                                                const Real* weight, Real* d_images) {
  const std::ptrdiff_t places = std::ptrdiff_t{s.window} * s.window, size = window_size(s);
  std::vector<Sum> sums(s.in_pixels() * static_cast<std::size_t>(s.in));
  for (std::size_t image = 0; image < static_cast<std::size_t>(s.batch); ++image) {
    const Real* from = d_out + out_at(s, image);
    if (s.groups == 1) {
      columns_.resize(static_cast<std::size_t>(positions(s)) * static_cast<std::size_t>(size));
      compute_.matmul({positions(s), window_size(s), s.out, false, false, false, false}, from, weight,
                      nullptr, columns_.data());
    }
    std::fill(sums.begin(), sums.end(), Sum(0));
    for_each_window_pixel(s, [&](std::ptrdiff_t position, std::ptrdiff_t pixel, std::ptrdiff_t place) {
      Sum* to = sums.data() + pixel * s.in;
      for (std::ptrdiff_t channel = 0; channel < s.in; ++channel) {
        to[channel] +=
            s.groups == 1
                ? Sum(columns_[static_cast<std::size_t>(position * size + channel * places + place)])
                : Sum(from[position * s.out + channel]) * Sum(weight[channel * places + place]);
      }
    });
    std::transform(sums.begin(), sums.end(), d_images + in_at(s, image), [](Sum sum) { return Real(sum); });
  }
}

template <typename Real>
void UnfoldedConvolution<Real>::backward_weight(const ConvolutionShape& s, const Real* images,
                                                const Real* d_out, Sum* d_weight, Sum* d_bias) {
  const std::ptrdiff_t places = std::ptrdiff_t{s.window} * s.window;
  std::fill_n(d_weight, s.weights(), Sum(0));
  if (d_bias) std::fill_n(d_bias, s.out, Sum(0));
  sums_.resize(s.weights());
  for (std::size_t image = 0; image < static_cast<std::size_t>(s.batch); ++image) {
    const Real *from = images + in_at(s, image), *d = d_out + out_at(s, image);
    for (std::size_t i = 0; d_bias && i < s.out_pixels() * static_cast<std::size_t>(s.out); ++i)
      d_bias[i % static_cast<std::size_t>(s.out)] += Sum(d[i]);
    if (s.groups == 1) {
      unfold(s, from, columns_);
      compute_.weight_gradient(positions(s), window_size(s), s.out, columns_.data(), d, sums_.data(),
                               nullptr);
      for (std::size_t i = 0; i < sums_.size(); ++i) d_weight[i] += sums_[i];
      continue;
    }
    for_each_window_pixel(s, [&](std::ptrdiff_t position, std::ptrdiff_t pixel, std::ptrdiff_t place) {
      for (std::ptrdiff_t channel = 0; channel < s.out; ++channel) {
        d_weight[channel * places + place] +=
            Sum(from[pixel * s.in + channel]) * Sum(d[position * s.out + channel]);
      }
    });
  }
}

template class UnfoldedConvolution<float>;
template class UnfoldedConvolution<double>;
template class UnfoldedConvolution<bfloat16>;

}  // namespace muster::compute::cpu
