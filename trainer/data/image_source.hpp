// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/token.hpp"

namespace muster::data {

/// Images of one size with labels. Reading is thread-safe.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual std::uint64_t count() const noexcept = 0;
  virtual compute::Token label(std::uint64_t image) const noexcept = 0;
  /// The image's bytes: one plane for each channel, row by row.
  virtual std::span<const std::uint8_t> planes(std::uint64_t image) const noexcept = 0;
  /// A hash of the content. `seed` chains calls.
  virtual std::uint64_t fingerprint(std::uint64_t seed) const noexcept = 0;
};

/// Images to train on and to validate with.
struct LabelledSet {
  std::shared_ptr<const ImageSource> training, held_out;
  int side = 0;  ///< pixels in each direction
  int channels = 3;
  int classes = 0;
  /// Of the training images' values from 0 to 1, for each channel.
  std::vector<float> mean, deviation;
};

}  // namespace muster::data
