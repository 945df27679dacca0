// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/error.hpp"
#include "picture_sets/picture_set.hpp"
#include "training/image_data.hpp"

namespace muster {

/// A picture that is ready to be a network's input.
struct PictureSample {
  std::vector<std::uint8_t> pixels;  ///< red, green and blue of [side, side]; empty if it is left out
  compute::Token label = 0;
  std::optional<Error> error;
  std::vector<std::string> left_out;  ///< see ImageLoader::left_out()
};

/// Reads, decodes and augments pictures. A sample is a function of the data, the seed and its number alone.
/// Thread-safe.
class PictureSampler {
 public:
  /// `skip`: a picture that cannot be decoded is left out, and a sample to train on uses the epoch's next
  /// picture instead; otherwise it is an error. All must outlive the sampler.
  PictureSampler(const picture_sets::PictureSet& set, const SampleSettings& settings,
                 const Permutation& order, bool skip)
      : set_(set), settings_(settings), order_(order), skip_(skip) {}

  PictureSample training_sample(std::uint64_t sample) const;
  PictureSample held_out_sample(std::uint64_t picture) const;

 private:
  /// `sample`: the number that decides the augmentation; none: none.
  PictureSample read(const picture_sets::PictureSource& source, std::uint64_t picture,
                     std::optional<std::uint64_t> sample) const;

  const picture_sets::PictureSet& set_;
  SampleSettings settings_;
  const Permutation& order_;
  bool skip_;
};

}  // namespace muster
