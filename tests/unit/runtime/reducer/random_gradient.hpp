// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

// Numbers of many magnitudes, so that another order of additions gives other bits.
inline std::vector<float> random_gradient(std::size_t size, std::uint64_t chunk, std::size_t parameter,
                                          std::uint64_t step) {
  std::mt19937 random(static_cast<unsigned>(chunk * 1000 + parameter * 10 + step));
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> magnitude(-12, 12);
  std::vector<float> values(size);
  for (auto& value : values) value = std::ldexp(normal(random), magnitude(random));
  return values;
}
