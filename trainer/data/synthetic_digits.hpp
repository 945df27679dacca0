// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace muster::data {

/// Synthetic digits in MNIST's format: 28 x 28 gray pixels, 0 is the background.
inline constexpr int digit_side = 28;

struct Digit {
  std::array<std::uint8_t, digit_side * digit_side> pixels{};
  std::uint8_t label = 0;
};

/// Draws digit number `image` of a seed's stream: a random label in one of several shapes, warped, rotated,
/// sheared, scaled and shifted, with a pen of random width and darkness on a noisy background. Equal
/// arguments give equal digits on machines whose libm agrees to the last bit.
Digit draw_digit(std::uint64_t seed, std::uint64_t stream, std::uint64_t image);

}  // namespace muster::data
