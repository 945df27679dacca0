// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "muster/sampler.hpp"

namespace muster::data {

/// Maps each training sample to a window of a token sequence. There is one global sequence of samples, the
/// same for any number of ranks: step s uses samples [s * batch, (s + 1) * batch).
///
/// The tokens are cut into windows of context + 1 tokens (the last one is only a target) at a random offset
/// that changes each epoch. Every window occurs exactly once per epoch, in the order of a Permutation. So a
/// position in the data is the seed and the sample's number, which determines epoch and window.
class SampleWindows {
 public:
  /// @throws muster::Error(ErrorCode::usage) when tokens < context + 1.
  SampleWindows(std::uint64_t tokens, int context, std::uint64_t seed);

  std::uint64_t per_epoch() const noexcept { return order_.count(); }
  /// First token of the sample's window; the window is [start, start + context + 1).
  std::uint64_t start(std::uint64_t sample) const noexcept;

 private:
  std::uint64_t context_, seed_;
  Permutation order_;
  std::uint64_t offsets_;
};

}  // namespace muster::data
