// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "muster/philox.hpp"

namespace muster::data {

/// Random numbers of one Philox stream, starting at number `first`.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t stream, std::uint64_t first = 0)
      : seed_(seed), stream_(stream), next_(first) {}
  std::uint64_t bits() noexcept { return uniform_bits(seed_, stream_, next_++); }
  /// In [0, 1).
  double unit() noexcept { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double between(double low, double high) noexcept { return low + (high - low) * unit(); }
  /// In [0, count).
  int pick(int count) noexcept { return static_cast<int>(bits() % static_cast<std::uint64_t>(count)); }
  double normal() noexcept {
    const double radius = std::sqrt(-2 * std::log(1 - unit()));
    return radius * std::cos(2 * std::numbers::pi * unit());
  }

 private:
  std::uint64_t seed_, stream_, next_;
};

}  // namespace muster::data
