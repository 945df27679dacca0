// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "muster/sampler.hpp"

namespace muster::data {

/// Which window of a sequence of tokens each training sample is. One global sequence of samples, the same for
/// any number of ranks: step s takes samples [s * batch, (s + 1) * batch).
///
/// It is cut into windows of context + 1 tokens (the last one is only a target) at a random offset that
/// changes each epoch; every window comes exactly once an epoch, in the order of a Permutation. So a position
/// is the seed and the sample's number, which counts epochs and the place in them in one.
class Windows {
 public:
  /// @throws muster::Error(ErrorCode::usage) when tokens < context + 1.
  Windows(std::uint64_t tokens, int context, std::uint64_t seed);

  std::uint64_t per_epoch() const noexcept { return order_.count(); }
  /// First token of the sample's window; the window is [start, start + context + 1).
  std::uint64_t start(std::uint64_t sample) const noexcept;

 private:
  std::uint64_t context_, seed_;
  Permutation order_;
  std::uint64_t offsets_;
};

}  // namespace muster::data
