// SPDX-License-Identifier: Apache-2.0
#include "pictures/crop.hpp"

#include <algorithm>
#include <cmath>

#include "data/random_stream.hpp"

namespace muster::pictures {
namespace {

/// Stream of the seed's generator; see also NetworkWorkload, whose streams lie below.
constexpr std::uint64_t crop_stream = (std::uint64_t{1} << 61) + 65;
constexpr double least_area = 0.08, least_ratio = 3.0 / 4, largest_ratio = 4.0 / 3;

Box place(int left, int top, int width, int height) {
  return {static_cast<double>(left), static_cast<double>(top), static_cast<double>(left + width),
          static_cast<double>(top + height)};
}

Box largest_box(int width, int height) {
  const double ratio = static_cast<double>(width) / height;
  int box_width = width, box_height = height;
  if (ratio < least_ratio) box_height = std::max(1, static_cast<int>(std::lround(width / least_ratio)));
  if (ratio > largest_ratio) box_width = std::max(1, static_cast<int>(std::lround(height * largest_ratio)));
  return place((width - box_width) / 2, (height - box_height) / 2, box_width, box_height);
}

Box draw_box(data::RandomStream& rng, int width, int height) {
  constexpr int tries = 10;
  for (int i = 0; i < tries; ++i) {
    const double area = rng.between(least_area, 1) * width * height;
    const double ratio = std::exp(rng.between(std::log(least_ratio), std::log(largest_ratio)));
    const long box_width = std::lround(std::sqrt(area * ratio)),
               box_height = std::lround(std::sqrt(area / ratio));
    if (box_width < 1 || box_width > width || box_height < 1 || box_height > height) continue;
    const int left = rng.pick(width - static_cast<int>(box_width) + 1);
    return place(left, rng.pick(height - static_cast<int>(box_height) + 1), static_cast<int>(box_width),
                 static_cast<int>(box_height));
  }
  return largest_box(width, height);
}

}  // namespace

Crop draw_crop(std::uint64_t seed, std::uint64_t sample, int width, int height) {
  constexpr std::uint64_t draws_per_sample = 32;
  data::RandomStream rng(seed, crop_stream, sample * draws_per_sample);
  const bool mirror = (rng.bits() & 1) != 0;
  return {draw_box(rng, width, height), true, mirror};
}

Crop middle_crop(int width, int height, int side) {
  const int shorter = (side * 8 + 3) / 7;
  const int scaled_width =
      width <= height ? shorter : static_cast<int>(std::int64_t{shorter} * width / height);
  const int scaled_height =
      width <= height ? static_cast<int>(std::int64_t{shorter} * height / width) : shorter;
  const double x = static_cast<double>(width) / scaled_width, y = static_cast<double>(height) / scaled_height;
  const double left = std::nearbyint((scaled_width - side) / 2.0),
               top = std::nearbyint((scaled_height - side) / 2.0);
  return {{left * x, top * y, (left + side) * x, (top + side) * y}, false, false};
}

int choose_shrink(const Box& box, int side) {
  int shrink = 8;
  while (shrink > 1 && std::min(box.width(), box.height()) < static_cast<double>(side) * shrink) shrink /= 2;
  return shrink;
}

}  // namespace muster::pictures
