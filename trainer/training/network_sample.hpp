// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "muster/philox.hpp"
#include "muster/sampler.hpp"

namespace muster {

/// Smallest validation batch of a network on images; validation uses the training batch when that is larger.
inline constexpr std::uint64_t least_validation_batch = 32;

/// The held-out images that `rank` of `ranks` validates, whole groups of so many of `count`.
inline Share share_held_out(std::uint64_t count, std::uint64_t group, int rank, int ranks) {
  const Share groups = share_of((count + group - 1) / group, rank, ranks);
  return {std::min(groups.begin * group, count), std::min(groups.end * group, count)};
}

/// Draws the factors of a sample for `count` channels behind dropout number `dropout` of the network: each is
/// kept, and doubled, with probability 1/2. They depend on the arguments alone.
template <typename Real>
void draw_dropout(std::uint64_t seed, std::size_t dropout, std::uint64_t sample, int count, Real* to) {
  // First stream of the seed's generator, one for each dropout. SampleWindows uses another one, and initial
  // weights use small numbers (one per tensor).
  constexpr std::uint64_t first_stream = std::uint64_t{1} << 61;
  const std::uint64_t bits = uniform_bits(seed, first_stream + dropout, sample);
  for (int channel = 0; channel < count; ++channel)
    to[channel] = Real((bits >> channel & 1) != 0 ? 2.0f : 0.0f);
}

}  // namespace muster
