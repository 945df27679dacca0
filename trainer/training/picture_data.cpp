// SPDX-License-Identifier: Apache-2.0
#include "training/picture_data.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "training/picture_prefetcher.hpp"
#include "training/picture_sampler.hpp"

namespace muster {
namespace {

/// Of ImageNet's pictures to train on, as torchvision's models expect it.
constexpr std::array<float, 3> mean{0.485f, 0.456f, 0.406f}, deviation{0.229f, 0.224f, 0.225f};

template <typename Real>
class PictureLoader final : public ImageLoader<Real> {
 public:
  PictureLoader(const picture_sets::PictureSet& set, const PictureData::Settings& settings,
                const SampleSettings& samples, const Permutation& order)
      : sampler_(set, samples, order, settings.skip),
        team_(samples.threads),
        held_out_(set.held_out->count()),
        prefetcher_(
            [this](const Id& id) {
              return id.held_out ? sampler_.held_out_sample(id.number) : sampler_.training_sample(id.number);
            },
            settings.threads) {
    for (std::size_t channel = 0; channel < mean.size(); ++channel) {
      for (std::size_t byte = 0; byte < 256; ++byte)
        values_[channel][byte] =
            Real((static_cast<float>(byte) / 255.0f - mean[channel]) / deviation[channel]);
    }
  }

  void prefetch(std::span<const Share> samples) override {
    std::vector<Id> ids;
    for (const Share& share : samples) add(ids, false, share.begin, share.end);
    prefetcher_.prefetch(ids);
  }
  void load(std::uint64_t first, std::uint64_t count, Real* pixels, compute::Token* labels) override {
    take(false, first, count, pixels, labels);
  }
  std::uint64_t load_held_out(std::uint64_t first, std::uint64_t count, Real* pixels,
                              compute::Token* labels) override {
    // This batch and the next one.
    std::vector<Id> ids;
    add(ids, true, first, std::min(first + 2 * count, held_out_));
    prefetcher_.prefetch(ids);
    return take(true, first, count, pixels, labels);
  }
  std::vector<std::string> left_out() const override { return {left_out_.begin(), left_out_.end()}; }

 private:
  using Id = PicturePrefetcher::Id;

  static void add(std::vector<Id>& ids, bool held_out, std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t number = begin; number < end; ++number) ids.push_back({held_out, number});
  }
  std::uint64_t take(bool held_out, std::uint64_t first, std::uint64_t count, Real* pixels,
                     compute::Token* labels) {
    std::vector<Id> ids;
    add(ids, held_out, first, first + count);
    const std::vector<PictureSample> samples = prefetcher_.take(ids, team_);
    std::vector<const PictureSample*> used;
    for (const PictureSample& sample : samples) {
      if (sample.error) throw *sample.error;
      left_out_.insert(sample.left_out.begin(), sample.left_out.end());
      if (!sample.pixels.empty()) used.push_back(&sample);
    }
    const auto used_count = static_cast<std::ptrdiff_t>(used.size());
#pragma omp parallel for num_threads(team_)
    for (std::ptrdiff_t i = 0; i < used_count; ++i) {
      const PictureSample& sample = *used[static_cast<std::size_t>(i)];
      labels[i] = sample.label;
      Real* to = pixels + static_cast<std::size_t>(i) * sample.pixels.size();
      for (std::size_t at = 0; at < sample.pixels.size(); at += 3) {
        for (std::size_t channel = 0; channel < 3; ++channel)
          *to++ = values_[channel][sample.pixels[at + channel]];
      }
    }
    return used.size();
  }

  PictureSampler sampler_;
  std::set<std::string> left_out_;
  int team_;
  std::uint64_t held_out_;
  std::array<std::array<Real, 256>, 3> values_;  ///< of each byte in each channel
  PicturePrefetcher prefetcher_;                 ///< its threads end before what they use
};

}  // namespace

std::unique_ptr<ImageLoader<float>> PictureData::make_loader(const SampleSettings& settings,
                                                             const Permutation& order, float) const {
  return std::make_unique<PictureLoader<float>>(set_, settings_, settings, order);
}

std::unique_ptr<ImageLoader<bfloat16>> PictureData::make_loader(const SampleSettings& settings,
                                                                const Permutation& order, bfloat16) const {
  return std::make_unique<PictureLoader<bfloat16>>(set_, settings_, settings, order);
}

}  // namespace muster
