// SPDX-License-Identifier: Apache-2.0
#include "training/sample_images.hpp"

#include <algorithm>
#include <cmath>

#include "compute/precision.hpp"
#include "muster/philox.hpp"

namespace muster {
namespace {

/// Stream of the seed's generator; see also NetworkWorkload.
constexpr std::uint64_t crop_stream = (std::uint64_t{1} << 61) + 64;

}  // namespace

Crop draw_crop(std::uint64_t seed, std::uint64_t sample) {
  constexpr std::uint64_t places = 2 * crop_padding + 1;
  const std::uint64_t bits = uniform_bits(seed, crop_stream, sample);
  const std::uint64_t place = (bits >> 1) % (places * places);
  return {static_cast<int>(place % places) - crop_padding, static_cast<int>(place / places) - crop_padding,
          (bits & 1) != 0};
}

template <typename Real>
SampleImages<Real>::SampleImages(const data::LabelledSet& data, int side)
    : source_side_(data.side), side_(side), channels_(data.channels), values_(data.mean.size()) {
  for (std::size_t channel = 0; channel < values_.size(); ++channel) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const float value = static_cast<float>(byte) / 255.0f;
      values_[channel][byte] = Real((value - data.mean[channel]) / data.deviation[channel]);
    }
  }
  if (side_ != source_side_)
    cropped_.resize(static_cast<std::size_t>(source_side_) *
                    static_cast<std::size_t>(source_side_ * channels_));
}

template <typename Real>
void SampleImages<Real>::load(const data::ImageSource& source, std::uint64_t image, const Crop& crop,
                              Real* to) {
  if (side_ == source_side_) return crop_into(source.planes(image), crop, to);
  crop_into(source.planes(image), crop, cropped_.data());
  scale_into(to);
}

template <typename Real>
void SampleImages<Real>::crop_into(std::span<const std::uint8_t> planes, const Crop& crop, Real* to) const {
  const int side = source_side_;
  const auto is_outside = [side](int at) { return at < 0 || at >= side; };
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const int row = y + crop.y, column = (crop.mirror ? side - 1 - x : x) + crop.x;
      const bool outside = is_outside(row) || is_outside(column);
      for (int channel = 0; channel < channels_; ++channel) {
        const int at = (channel * side + row) * side + column;
        *to++ =
            values_[static_cast<std::size_t>(channel)][outside ? 0 : planes[static_cast<std::size_t>(at)]];
      }
    }
  }
}

// Pixel centres lie at half pixels, as in PyTorch's interpolate() with align_corners=False.
template <typename Real>
void SampleImages<Real>::scale_into(Real* to) const {
  struct Place {
    int low, high;
    float part;
  };
  const auto place = [&](int at) {
    const float from = std::max(
        0.0f, (static_cast<float>(at) + 0.5f) * static_cast<float>(source_side_) / static_cast<float>(side_) -
                  0.5f);
    const int low = std::min(static_cast<int>(from), source_side_ - 1);
    return Place{low, std::min(low + 1, source_side_ - 1), from - static_cast<float>(low)};
  };
  for (int y = 0; y < side_; ++y) {
    const Place row = place(y);
    for (int x = 0; x < side_; ++x) {
      const Place column = place(x);
      for (int channel = 0; channel < channels_; ++channel) {
        const auto pixel = [&](int at_row, int at_column) {
          return static_cast<float>(
              cropped_[(static_cast<std::size_t>(at_row) * static_cast<std::size_t>(source_side_) +
                        static_cast<std::size_t>(at_column)) *
                           static_cast<std::size_t>(channels_) +
                       static_cast<std::size_t>(channel)]);
        };
        const float above =
            pixel(row.low, column.low) * (1 - column.part) + pixel(row.low, column.high) * column.part;
        const float below =
            pixel(row.high, column.low) * (1 - column.part) + pixel(row.high, column.high) * column.part;
        *to++ = Real(above * (1 - row.part) + below * row.part);
      }
    }
  }
}

template class SampleImages<float>;
template class SampleImages<bfloat16>;

}  // namespace muster
