// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "compute/arena.hpp"

namespace muster {

/// Where the inputs of a batch of images lie in one array: the factors of each dropout, [images, channels],
/// and behind them the pixels. Each block begins at a cache line. In elements of `real_bytes`.
struct InputLayout {
  InputLayout() = default;
  /// `dropout`: channels of each. `image_elements`: of one image; 0: without pixels.
  InputLayout(const std::vector<int>& dropout, std::size_t image_elements, std::size_t images,
              std::size_t real_bytes) {
    constexpr std::size_t line = compute::arena_alignment;
    for (const int channels : dropout) {
      factors.push_back(pixels);
      const std::size_t bytes = images * static_cast<std::size_t>(channels) * real_bytes;
      pixels += (bytes + line - 1) / line * line / real_bytes;
    }
    size = pixels + images * image_elements;
  }

  std::vector<std::size_t> factors;  ///< where those of each dropout begin
  std::size_t pixels = 0;            ///< where the pixels begin
  std::size_t size = 0;
};

}  // namespace muster
