// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "picture_sets/picture_set.hpp"
#include "training/image_data.hpp"

namespace muster {

/// Labelled JPEG and PNG files of any size. To train on they are cropped at random (pictures::draw_crop());
/// to validate with, the middle is cut out. Channels are normalized by ImageNet's mean and deviation.
class PictureData final : public ImageData {
 public:
  struct Settings {
    bool skip = false;  ///< see PictureSampler
    int threads = 1;    ///< that prepare samples before they are needed
  };
  PictureData(picture_sets::PictureSet set, const Settings& settings)
      : set_(std::move(set)), settings_(settings) {}

  std::uint64_t count() const noexcept override { return set_.training->count(); }
  std::uint64_t held_out() const noexcept override { return set_.held_out->count(); }
  int classes() const noexcept override { return set_.classes; }
  int channels() const noexcept override { return 3; }
  int side() const noexcept override { return 224; }
  const char* augmentation() const noexcept override { return "cropped, scaled and mirrored"; }
  std::uint64_t fingerprint() const noexcept override {
    return set_.held_out->fingerprint(set_.training->fingerprint(0));
  }
  std::unique_ptr<ImageLoader<float>> make_loader(const SampleSettings& settings, const Permutation& order,
                                                  float) const override;
  std::unique_ptr<ImageLoader<bfloat16>> make_loader(const SampleSettings& settings, const Permutation& order,
                                                     bfloat16) const override;

 private:
  picture_sets::PictureSet set_;
  Settings settings_;
};

}  // namespace muster
