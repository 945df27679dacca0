// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compute/token.hpp"

namespace muster::picture_sets {

/// Encoded pictures with labels. Reading is thread-safe.
class PictureSource {
 public:
  virtual ~PictureSource() = default;
  virtual std::uint64_t count() const noexcept = 0;
  virtual compute::Token label(std::uint64_t picture) const noexcept = 0;
  /// Where the picture comes from, for messages.
  virtual std::string name(std::uint64_t picture) const = 0;
  /// The encoded picture, in `buffer` or elsewhere; valid while both live.
  /// @throws muster::Error: usage (it became shorter), system (it cannot be read).
  virtual std::span<const std::uint8_t> read(std::uint64_t picture,
                                             std::vector<std::uint8_t>& buffer) const = 0;
  /// A hash of names, labels and sizes. `seed` chains calls.
  virtual std::uint64_t fingerprint(std::uint64_t seed) const noexcept = 0;
};

}  // namespace muster::picture_sets
