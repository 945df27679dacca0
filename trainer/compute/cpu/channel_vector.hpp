// SPDX-License-Identifier: Apache-2.0
// Vectors of channels that stay in registers while pixels pass, in the accurate type of any precision.
// Included only by kernel sources (see kernels.hpp).
#pragma once

#include "compute/cpu/bfloat16_convert.hpp"

namespace {

/// Elements in 64 bytes.
template <typename T>
constexpr int channel_lanes = 64 / static_cast<int>(sizeof(T));
template <>
constexpr int channel_lanes<std::uint16_t> = channel_lanes<float>;

template <typename T>
struct ChannelVectorOf {
  typedef T type __attribute__((vector_size(channel_lanes<T> * sizeof(T))));
};
template <>
struct ChannelVectorOf<muster::bfloat16> : ChannelVectorOf<std::uint16_t> {};
template <typename T>
using ChannelVector = typename ChannelVectorOf<T>::type;

/// Loads `count` elements, at most `channel_lanes<T>`; the other channel_lanes<T> are zero.
template <typename T>
inline void load(ChannelVector<T>& to, const T* from, int count) {
  if (count == channel_lanes<T>) {
    __builtin_memcpy(&to, from, sizeof(to));
    return;
  }
  T padded[channel_lanes<T>] = {};
  for (int i = 0; i < count; ++i) padded[i] = from[i];
  __builtin_memcpy(&to, padded, sizeof(to));
}
inline void load(ChannelVector<float>& to, const muster::bfloat16* from, int count) {
  if (count == channel_lanes<float>) {
    ChannelVector<std::uint16_t> bits;
    __builtin_memcpy(&bits, from, sizeof(bits));
    const ChannelVector<std::uint32_t> wide = __builtin_convertvector(bits, ChannelVector<std::uint32_t>)
                                              << 16;
    __builtin_memcpy(&to, &wide, sizeof(to));
    return;
  }
  float padded[channel_lanes<float>] = {};
  for (int i = 0; i < count; ++i) padded[i] = widen(from[i]);
  __builtin_memcpy(&to, padded, sizeof(to));
}

template <typename T>
inline void store(T* to, const ChannelVector<T>& from, int count) {
  if (count == channel_lanes<T>) {
    __builtin_memcpy(to, &from, sizeof(from));
    return;
  }
  T padded[channel_lanes<T>];
  __builtin_memcpy(padded, &from, sizeof(from));
  for (int i = 0; i < count; ++i) to[i] = padded[i];
}
inline void store(muster::bfloat16* to, const ChannelVector<float>& from, int count) {
  ChannelVector<std::uint32_t> bits;
  __builtin_memcpy(&bits, &from, sizeof(bits));
  const ChannelVector<std::uint32_t> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16,
                                     quiet = (bits >> 16) | 0x40u;
  const ChannelVector<std::uint16_t> narrow = __builtin_convertvector(
      (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded, ChannelVector<std::uint16_t>);
  if (count == channel_lanes<float>) {
    __builtin_memcpy(static_cast<void*>(to), &narrow, sizeof(narrow));
    return;
  }
  std::uint16_t padded[channel_lanes<float>];
  __builtin_memcpy(padded, &narrow, sizeof(narrow));
  for (int i = 0; i < count; ++i) to[i].bits = padded[i];
}

template <typename Sum>
inline int block_lanes(int channels, int first) {
  return channels - first < channel_lanes<Sum> ? channels - first : channel_lanes<Sum>;
}

/// How many channels to read or write at once: a whole vector where that stays within `size` elements, even
/// if the pixel has fewer channels, because part of a vector takes longer. A store may then reach into the
/// next channels and pixels, so write these later.
template <typename Sum>
inline int whole_lanes(int count, std::ptrdiff_t at, std::ptrdiff_t size) {
  return at + channel_lanes<Sum> <= size ? channel_lanes<Sum> : count;
}

}  // namespace
