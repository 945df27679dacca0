// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::data {

/// The part [begin, end) of `total` items that belongs to `rank` of `size`: contiguous, without overlap,
/// sizes differ by at most one.
struct Share {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t count() const noexcept { return end - begin; }
};
Share share_of(std::uint64_t total, int rank, int size) noexcept;

/// Which window of the text each training sample is. One global sequence of samples, the same for any number
/// of ranks: step s takes samples [s * batch, (s + 1) * batch) and rank r its share_of() them.
///
/// The text is cut into windows of context + 1 bytes (the last byte is only a target) at a random offset that
/// changes each epoch; every window comes exactly once an epoch, in an order from a keyed permutation. So a
/// position is one integer: the sample's number.
class Sampler {
 public:
  /// @throws muster::Error(Fault::usage) when text_bytes < context + 1.
  Sampler(std::uint64_t text_bytes, int context, std::uint64_t seed);

  std::uint64_t windows_per_epoch() const noexcept { return windows_; }
  /// First byte of the sample's window; the window is [start, start + context + 1).
  std::uint64_t start(std::uint64_t sample) const noexcept;

 private:
  std::uint64_t permuted(std::uint64_t epoch, std::uint64_t index) const noexcept;

  std::uint64_t context_, seed_, windows_, offsets_;
  int half_bits_;
};

}  // namespace muster::data
