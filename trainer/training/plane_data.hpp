// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/image_source.hpp"
#include "training/image_data.hpp"

namespace muster {

/// Images of one size in memory: MNIST's and CIFAR's files.
class PlaneData final : public ImageData {
 public:
  explicit PlaneData(data::LabelledSet images) : images_(std::move(images)) {}

  std::uint64_t count() const noexcept override { return images_.training->count(); }
  std::uint64_t held_out() const noexcept override { return images_.held_out->count(); }
  int classes() const noexcept override { return images_.classes; }
  int channels() const noexcept override { return images_.channels; }
  int side() const noexcept override { return images_.side; }
  const char* augmentation() const noexcept override { return "cropped and mirrored"; }
  std::uint64_t fingerprint() const noexcept override {
    return images_.held_out->fingerprint(images_.training->fingerprint(0));
  }
  std::unique_ptr<ImageLoader<float>> make_loader(const SampleSettings& settings, const Permutation& order,
                                                  float) const override;
  std::unique_ptr<ImageLoader<bfloat16>> make_loader(const SampleSettings& settings, const Permutation& order,
                                                     bfloat16) const override;

 private:
  data::LabelledSet images_;
};

}  // namespace muster
