// SPDX-License-Identifier: Apache-2.0
// Max pooling of one image; compiled once per instruction set (see kernels.hpp). oneDNN's drops NaN.
#include "compute/cpu/bfloat16_convert.hpp"
#include "compute/cpu/kernel_dispatch.hpp"

namespace {

using muster::compute::PoolShape;

/// Not the members of PoolShape, which the linker could take from another instruction set's object.
inline int pooled(const PoolShape& s, int pixels) {
  return (pixels + 2 * s.padding - s.window) / s.stride + 1;
}
inline int lower(int a, int b) { return a < b ? a : b; }

/// Calls f(pixel, place in the window) for the pixels of the window at (y, x), row by row.
template <typename F>
inline void for_each_place(const PoolShape& s, int y, int x, F&& f) {
  const int top = y * s.stride - s.padding, left = x * s.stride - s.padding;
  for (int row = top < 0 ? -top : 0; row < lower(s.window, s.height - top); ++row) {
    for (int column = left < 0 ? -left : 0; column < lower(s.window, s.width - left); ++column)
      f(std::ptrdiff_t{top + row} * s.width + left + column, row * s.window + column);
  }
}

template <typename Real>
void max_pool(const PoolShape& s, const Real* image, Real* out, std::uint8_t* places) {
  using Sum = Accurate<Real>;
  const int channels = s.channels, height = pooled(s, s.height), width = pooled(s, s.width);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x, out += channels, places += channels) {
      bool first = true;
      for_each_place(s, y, x, [&](std::ptrdiff_t pixel, int place) {
        const Real* from = image + pixel * channels;
        if (first) {
          for (int i = 0; i < channels; ++i) out[i] = from[i];
          for (int i = 0; i < channels; ++i) places[i] = static_cast<std::uint8_t>(place);
          first = false;
          return;
        }
#pragma omp simd
        for (int i = 0; i < channels; ++i) {
          const Sum value = widen(from[i]), best = widen(out[i]);
          const bool takes = value > best || value != value;
          store(out[i], takes ? value : best);
          places[i] = takes ? static_cast<std::uint8_t>(place) : places[i];
        }
      });
    }
  }
}

template <typename Real>
void max_pool_backward(const PoolShape& s, const std::uint8_t* places, const Real* d_out, Real* d_image) {
  using Sum = Accurate<Real>;
  const int channels = s.channels, height = pooled(s, s.height), width = pooled(s, s.width);
  const std::ptrdiff_t size = std::ptrdiff_t{s.height} * s.width * channels;
  __builtin_memset(static_cast<void*>(d_image), 0, static_cast<std::size_t>(size) * sizeof(Real));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x, d_out += channels, places += channels) {
      for_each_place(s, y, x, [&](std::ptrdiff_t pixel, int place) {
        Real* to = d_image + pixel * channels;
#pragma omp simd
        for (int i = 0; i < channels; ++i)
          store(to[i], widen(to[i]) + (places[i] == place ? widen(d_out[i]) : Sum(0)));
      });
    }
  }
}

template <typename Real>
constexpr muster::compute::cpu::PoolKernels<Real> pool_table{max_pool<Real>, max_pool_backward<Real>};

}  // namespace

namespace muster::compute::cpu::MUSTER_KERNEL_SET {
const PoolKernels<float> float_pool = pool_table<float>;
const PoolKernels<double> double_pool = pool_table<double>;
const PoolKernels<bfloat16> bfloat16_pool = pool_table<muster::bfloat16>;
}  // namespace muster::compute::cpu::MUSTER_KERNEL_SET
