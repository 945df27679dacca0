// SPDX-License-Identifier: Apache-2.0
#include "training/plane_data.hpp"

#include "data/file_mapping.hpp"
#include "training/sample_images.hpp"

namespace muster {
namespace {

template <typename Real>
class PlaneLoader final : public ImageLoader<Real> {
 public:
  PlaneLoader(const data::LabelledSet& images, const SampleSettings& settings, const Permutation& order)
      : images_(images), settings_(settings), order_(order), samples_(images, settings.side) {}

  void load(std::uint64_t first, std::uint64_t count, Real* pixels, compute::Token* labels) override {
    for (std::uint64_t i = 0; i < count; ++i, pixels += samples_.elements()) {
      const std::uint64_t image = image_of(order_, first + i);
      labels[i] = images_.training->label(image);
      samples_.load(*images_.training, image,
                    settings_.augment ? draw_crop(settings_.seed, first + i) : Crop{}, pixels);
    }
    data::check_mapped_files();
  }
  std::uint64_t load_held_out(std::uint64_t first, std::uint64_t count, Real* pixels,
                              compute::Token* labels) override {
    for (std::uint64_t i = 0; i < count; ++i, pixels += samples_.elements()) {
      labels[i] = images_.held_out->label(first + i);
      samples_.load(*images_.held_out, first + i, {}, pixels);
    }
    data::check_mapped_files();
    return count;
  }

 private:
  const data::LabelledSet& images_;
  SampleSettings settings_;
  const Permutation& order_;
  SampleImages<Real> samples_;
};

}  // namespace

std::unique_ptr<ImageLoader<float>> PlaneData::make_loader(const SampleSettings& settings,
                                                           const Permutation& order, float) const {
  return std::make_unique<PlaneLoader<float>>(images_, settings, order);
}

std::unique_ptr<ImageLoader<bfloat16>> PlaneData::make_loader(const SampleSettings& settings,
                                                              const Permutation& order, bfloat16) const {
  return std::make_unique<PlaneLoader<bfloat16>>(images_, settings, order);
}

}  // namespace muster
