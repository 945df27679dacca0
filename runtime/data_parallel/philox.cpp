// SPDX-License-Identifier: Apache-2.0
#include "muster/philox.hpp"

#include <cmath>
#include <numbers>

namespace muster {
namespace {

std::array<std::uint32_t, 4> random_words(std::uint64_t seed, std::uint64_t stream,
                                          std::uint64_t index) noexcept {
  return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                 static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c,
                                    std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(right >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(right),
         static_cast<std::uint32_t>(left >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(left)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) noexcept {
  const auto w = random_words(seed, stream, index);
  const double u = (w[0] + 0.5) * 0x1p-32;  // in (0, 1): the logarithm is finite
  const double angle = w[1] * 0x1p-32 * 2 * std::numbers::pi;
  return std::sqrt(-2 * std::log(u)) * std::cos(angle);
}

std::uint64_t uniform_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) noexcept {
  const auto w = random_words(seed, stream, index);
  return std::uint64_t{w[1]} << 32 | w[0];
}

}  // namespace muster
