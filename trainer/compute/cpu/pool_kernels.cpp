// SPDX-License-Identifier: Apache-2.0
// Max pooling of one image; compiled once per instruction set (see kernels.hpp). oneDNN's drops NaN.
#include "compute/cpu/channel_vector.hpp"
#include "compute/cpu/kernel_dispatch.hpp"

namespace {

using muster::compute::PoolShape;

/// Not the members of PoolShape, which the linker could take from another instruction set's object.
inline int pooled(const PoolShape& s, int pixels) {
  return (pixels + 2 * s.padding - s.window) / s.stride + 1;
}
inline int lower(int a, int b) { return a < b ? a : b; }

/// Windows of 2 x 2 pixels beside each other.
inline bool is_halving(const PoolShape& s) {
  return s.window == 2 && s.stride == 2 && s.padding == 0 && s.height >= 2 && s.width >= 2;
}

/// Calls f(pixel, place in the window) for the pixels of the window at (y, x), row by row.
template <bool is_halving, typename F>
inline void for_each_place(const PoolShape& s, int y, int x, F&& f) {
  if constexpr (is_halving) {  // without bounds, so that the compiler keeps no loop
    const std::ptrdiff_t upper = std::ptrdiff_t{2 * y} * s.width + 2 * x;
    f(upper, 0);
    f(upper + 1, 1);
    f(upper + s.width, 2);
    f(upper + s.width + 1, 3);
    return;
  }
  const int top = y * s.stride - s.padding, left = x * s.stride - s.padding;
  for (int row = top < 0 ? -top : 0; row < lower(s.window, s.height - top); ++row) {
    for (int column = left < 0 ? -left : 0; column < lower(s.window, s.width - left); ++column)
      f(std::ptrdiff_t{top + row} * s.width + left + column, row * s.window + column);
  }
}

/// Places in a window of as many channels as a vector has: in memory, and as integers of the size of Sum.
template <typename Sum>
struct PlaceBytes {
  typedef std::uint8_t type __attribute__((vector_size(channel_lanes<Sum>)));
  typedef std::uint16_t wider __attribute__((vector_size(2 * channel_lanes<Sum>)));
};
template <typename Sum>
using PlaceVector = decltype(ChannelVector<Sum>{} < ChannelVector<Sum>{});

template <typename Sum>
inline void load_places(PlaceVector<Sum>& to, const std::uint8_t* from, int count) {
  typename PlaceBytes<Sum>::type bytes{};
  if (count == channel_lanes<Sum>) {
    __builtin_memcpy(&bytes, from, sizeof(bytes));
  } else {
    std::uint8_t padded[channel_lanes<Sum>] = {};
    for (int i = 0; i < count; ++i) padded[i] = from[i];
    __builtin_memcpy(&bytes, padded, sizeof(bytes));
  }
  // gcc 12 widens to four times the size one element at a time.
  to = __builtin_convertvector(__builtin_convertvector(bytes, typename PlaceBytes<Sum>::wider),
                               PlaceVector<Sum>);
}

template <typename Sum>
inline void store_places(std::uint8_t* to, const PlaceVector<Sum>& from, int count) {
  const auto bytes = __builtin_convertvector(from, typename PlaceBytes<Sum>::type);
  if (count == channel_lanes<Sum>) {
    __builtin_memcpy(to, &bytes, sizeof(bytes));
    return;
  }
  std::uint8_t padded[channel_lanes<Sum>];
  __builtin_memcpy(padded, &bytes, sizeof(bytes));
  for (int i = 0; i < count; ++i) to[i] = padded[i];
}

template <bool is_halving, typename Real>
void pool(const PoolShape& s, const Real* image, Real* out, std::uint8_t* places) {
  using Sum = Accurate<Real>;
  const int channels = s.channels, height = pooled(s, s.height), width = pooled(s, s.width);
  const std::ptrdiff_t in_size = std::ptrdiff_t{s.height} * s.width * channels,
                       out_size = std::ptrdiff_t{height} * width * channels;
  std::ptrdiff_t to = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x, to += channels) {
      for (int first = 0; first < channels; first += channel_lanes<Sum>) {
        const int count = block_lanes<Sum>(channels, first);
        ChannelVector<Sum> best{}, value;
        PlaceVector<Sum> which{};
        bool has_best = false;
        for_each_place<is_halving>(s, y, x, [&](std::ptrdiff_t pixel, int place) {
          const std::ptrdiff_t from = pixel * channels + first;
          load(value, image + from, whole_lanes<Sum>(count, from, in_size));
          const PlaceVector<Sum> here = PlaceVector<Sum>{} + place;
          // NOLINTNEXTLINE(misc-redundant-expression): true for NaN
          const auto takes = (value > best) | (value != value);
          best = has_best ? (takes ? value : best) : value;
          which = has_best ? (takes ? here : which) : here;
          has_best = true;
        });
        const int lanes = whole_lanes<Sum>(count, to + first, out_size);
        store(out + to + first, best, lanes);
        store_places<Sum>(places + to + first, which, lanes);
      }
    }
  }
}

template <typename Real>
void max_pool(const PoolShape& s, const Real* image, Real* out, std::uint8_t* places) {
  is_halving(s) ? pool<true>(s, image, out, places) : pool<false>(s, image, out, places);
}

template <typename Real>
inline void zero(Real* from, std::ptrdiff_t count) {
  __builtin_memset(static_cast<void*>(from), 0, static_cast<std::size_t>(count) * sizeof(Real));
}

/// Each pixel is in one window at most, so it is written once. Pixels follow each other as in memory.
template <typename Real>
void halve_backward(const PoolShape& s, const std::uint8_t* places, const Real* d_out, Real* d_image) {
  using Sum = Accurate<Real>;
  const int channels = s.channels, height = s.height / 2, width = s.width / 2;
  const std::ptrdiff_t row_size = std::ptrdiff_t{s.width} * channels, in_size = s.height * row_size,
                       out_size = std::ptrdiff_t{height} * width * channels;
  for (int row = 0; row < 2 * height; ++row) {
    for (int column = 0; column < 2 * width; ++column) {
      const std::ptrdiff_t from = std::ptrdiff_t{row / 2 * width + column / 2} * channels,
                           to = row * row_size + std::ptrdiff_t{column} * channels;
      for (int first = 0; first < channels; first += channel_lanes<Sum>) {
        const int count = block_lanes<Sum>(channels, first);
        const int lanes = whole_lanes<Sum>(count, from + first, out_size);
        PlaceVector<Sum> which;
        ChannelVector<Sum> d;
        load_places<Sum>(which, places + from + first, lanes);
        load(d, d_out + from + first, lanes);
        d = which == row % 2 * 2 + column % 2 ? d : ChannelVector<Sum>{};
        store(d_image + to + first, d, whole_lanes<Sum>(count, to + first, in_size));
      }
    }
    if (s.width % 2 != 0) zero(d_image + (row + 1) * row_size - channels, channels);
  }
  if (s.height % 2 != 0) zero(d_image + 2 * height * row_size, row_size);
}

template <typename Real>
void max_pool_backward(const PoolShape& s, const std::uint8_t* places, const Real* d_out, Real* d_image) {
  if (is_halving(s)) return halve_backward(s, places, d_out, d_image);
  using Sum = Accurate<Real>;
  const int channels = s.channels, height = pooled(s, s.height), width = pooled(s, s.width);
  const std::ptrdiff_t in_size = std::ptrdiff_t{s.height} * s.width * channels,
                       out_size = std::ptrdiff_t{height} * width * channels;
  zero(d_image, in_size);
  Sum numbers[channel_lanes<Sum>];
  for (int i = 0; i < channel_lanes<Sum>; ++i) numbers[i] = Sum(i);
  ChannelVector<Sum> lane;
  __builtin_memcpy(&lane, numbers, sizeof(lane));
  std::ptrdiff_t from = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x, from += channels) {
      for (int first = 0; first < channels; first += channel_lanes<Sum>) {
        const int count = block_lanes<Sum>(channels, first);
        const int lanes = whole_lanes<Sum>(count, from + first, out_size);
        PlaceVector<Sum> which;
        ChannelVector<Sum> d, value;
        load_places<Sum>(which, places + from + first, lanes);
        load(d, d_out + from + first, lanes);
        d = lane < Sum(count) ? d : ChannelVector<Sum>{};  // nothing for the next pixel's channels
        for_each_place<false>(s, y, x, [&](std::ptrdiff_t pixel, int place) {
          const std::ptrdiff_t to = pixel * channels + first;
          const int to_lanes = whole_lanes<Sum>(count, to, in_size);
          load(value, d_image + to, to_lanes);
          value += which == place ? d : ChannelVector<Sum>{};
          store(d_image + to, value, to_lanes);
        });
      }
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
