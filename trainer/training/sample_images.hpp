// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/image_source.hpp"

namespace muster {

/// Where an image is cut out of itself with `crop_padding` black pixels around it, and whether it is
/// mirrored: the augmentation of He et al., arXiv 1512.03385, section 4.2.
struct Crop {
  int x = 0, y = 0;  ///< moves by this many pixels, from -crop_padding to crop_padding
  bool mirror = false;
};
inline constexpr int crop_padding = 4;

/// The crop of a sample, a function of its arguments alone. Samples are numbered through all epochs.
Crop draw_crop(std::uint64_t seed, std::uint64_t sample);

/// Turns bytes of images into a model's input [side, side, channels]: each channel has mean 0 and deviation
/// 1 over the training images.
template <typename Real>
class SampleImages {
 public:
  /// `side`: pixels of the input; images of another size are scaled bilinearly.
  SampleImages(const data::LabelledSet& data, int side);

  std::size_t elements() const {
    return static_cast<std::size_t>(side_) * static_cast<std::size_t>(side_ * channels_);
  }
  void load(const data::ImageSource& source, std::uint64_t image, const Crop& crop, Real* to);

 private:
  void crop_into(std::span<const std::uint8_t> planes, const Crop& crop, Real* to) const;
  void scale_into(Real* to) const;

  int source_side_, side_, channels_;
  std::vector<std::array<Real, 256>> values_;  ///< of each byte in each channel
  std::vector<Real> cropped_;                  ///< before it is scaled
};

}  // namespace muster
