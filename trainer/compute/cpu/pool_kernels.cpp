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

/// Calls f(pixel, place in the window) for the pixels of the window at (y, x), row by row.
template <typename F>
inline void for_each_place(const PoolShape& s, int y, int x, F&& f) {
  const int top = y * s.stride - s.padding, left = x * s.stride - s.padding;
  for (int row = top < 0 ? -top : 0; row < lower(s.window, s.height - top); ++row) {
    for (int column = left < 0 ? -left : 0; column < lower(s.window, s.width - left); ++column)
      f(std::ptrdiff_t{top + row} * s.width + left + column, row * s.window + column);
  }
}

/// Places in a window of as many channels as a vector has.
template <typename Sum>
struct PlaceBytes {
  typedef std::uint8_t type __attribute__((vector_size(channel_lanes<Sum>)));
};

/// How many channels to read or write at once: a whole vector where that stays within `size` elements, even
/// if the pixel has fewer channels, because part of a vector takes longer.
template <typename Sum>
inline int whole_lanes(int count, std::ptrdiff_t at, std::ptrdiff_t size) {
  return at + channel_lanes<Sum> <= size ? channel_lanes<Sum> : count;
}

template <typename Sum>
inline void load_places(ChannelVector<Sum>& to, const std::uint8_t* from, int count) {
  typename PlaceBytes<Sum>::type bytes{};
  if (count == channel_lanes<Sum>) {
    __builtin_memcpy(&bytes, from, sizeof(bytes));
  } else {
    std::uint8_t padded[channel_lanes<Sum>] = {};
    for (int i = 0; i < count; ++i) padded[i] = from[i];
    __builtin_memcpy(&bytes, padded, sizeof(bytes));
  }
  to = __builtin_convertvector(bytes, ChannelVector<Sum>);
}

template <typename Sum>
inline void store_places(std::uint8_t* to, const ChannelVector<Sum>& from, int count) {
  const auto bytes = __builtin_convertvector(from, typename PlaceBytes<Sum>::type);
  if (count == channel_lanes<Sum>) {
    __builtin_memcpy(to, &bytes, sizeof(bytes));
    return;
  }
  std::uint8_t padded[channel_lanes<Sum>];
  __builtin_memcpy(padded, &bytes, sizeof(bytes));
  for (int i = 0; i < count; ++i) to[i] = padded[i];
}

// A store may reach into the next channels and pixels, whose own values follow.
template <typename Real>
void max_pool(const PoolShape& s, const Real* image, Real* out, std::uint8_t* places) {
  using Sum = Accurate<Real>;
  const int channels = s.channels, height = pooled(s, s.height), width = pooled(s, s.width);
  const std::ptrdiff_t in_size = std::ptrdiff_t{s.height} * s.width * channels,
                       out_size = std::ptrdiff_t{height} * width * channels;
  std::ptrdiff_t to = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x, to += channels) {
      for (int first = 0; first < channels; first += channel_lanes<Sum>) {
        const int count = block_lanes<Sum>(channels, first);
        ChannelVector<Sum> best{}, which{}, value;
        bool has_best = false;
        for_each_place(s, y, x, [&](std::ptrdiff_t pixel, int place) {
          const std::ptrdiff_t from = pixel * channels + first;
          load(value, image + from, whole_lanes<Sum>(count, from, in_size));
          const ChannelVector<Sum> here = ChannelVector<Sum>{} + Sum(place);
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
void max_pool_backward(const PoolShape& s, const std::uint8_t* places, const Real* d_out, Real* d_image) {
  using Sum = Accurate<Real>;
  const int channels = s.channels, height = pooled(s, s.height), width = pooled(s, s.width);
  const std::ptrdiff_t in_size = std::ptrdiff_t{s.height} * s.width * channels,
                       out_size = std::ptrdiff_t{height} * width * channels;
  __builtin_memset(static_cast<void*>(d_image), 0, static_cast<std::size_t>(in_size) * sizeof(Real));
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
        ChannelVector<Sum> which, d, value;
        load_places<Sum>(which, places + from + first, lanes);
        load(d, d_out + from + first, lanes);
        d = lane < Sum(count) ? d : ChannelVector<Sum>{};  // nothing for the next pixel's channels
        for_each_place(s, y, x, [&](std::ptrdiff_t pixel, int place) {
          const std::ptrdiff_t to = pixel * channels + first;
          const int to_lanes = whole_lanes<Sum>(count, to, in_size);
          load(value, d_image + to, to_lanes);
          value += which == Sum(place) ? d : ChannelVector<Sum>{};
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
