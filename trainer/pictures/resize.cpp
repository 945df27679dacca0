// SPDX-License-Identifier: Apache-2.0
#include "pictures/resize.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace muster::pictures {
namespace {

/// Bits behind the point of a weight: as many as leave a sum of bytes within 32 bits.
constexpr int weight_bits = 22;

/// The pixels of one direction that make up an output pixel.
struct Taps {
  int first = 0, count = 0;
  const std::int32_t* weights = nullptr;
};

/// The taps of all output pixels of one direction.
class Filter {
 public:
  /// Output pixels divide [begin, end) evenly; only pixels in [low, high) count.
  Filter(double begin, double end, int low, int high, int out) : taps_(static_cast<std::size_t>(out)) {
    const double scale = (end - begin) / out, reach = std::max(scale, 1.0);
    const auto most = static_cast<std::size_t>(std::ceil(reach)) * 2 + 1;
    weights_.resize(most * taps_.size());
    std::vector<double> shares(most);
    for (std::size_t i = 0; i < taps_.size(); ++i) {
      const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
      Taps& taps = taps_[i];
      taps.first = std::clamp(static_cast<int>(std::max(centre - reach + 0.5, 0.0)), low, high - 1);
      taps.count =
          std::clamp(static_cast<int>(std::floor(centre + reach + 0.5)), taps.first + 1, high) - taps.first;
      double sum = 0;
      for (int tap = 0; tap < taps.count; ++tap) {
        const double distance = std::abs((taps.first + tap - centre + 0.5) / reach);
        sum += shares[static_cast<std::size_t>(tap)] = std::max(1 - distance, 0.0);
      }
      std::int32_t* const weights = weights_.data() + i * most;
      for (int tap = 0; tap < taps.count; ++tap) {
        const double share = sum > 0 ? shares[static_cast<std::size_t>(tap)] / sum : 1.0 / taps.count;
        weights[tap] = static_cast<std::int32_t>(std::floor(0.5 + share * (1 << weight_bits)));
      }
      taps.weights = weights;
    }
  }
  const Taps& operator[](int i) const { return taps_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<Taps> taps_;
  std::vector<std::int32_t> weights_;
};

std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> weight_bits, 0, 255));
}

constexpr std::int32_t half = 1 << (weight_bits - 1);

void resize_row(const std::uint8_t* from, const Filter& filter, int side, std::uint8_t* to) {
  for (int x = 0; x < side; ++x, to += 3) {
    const Taps& taps = filter[x];
    std::int32_t red = half, green = half, blue = half;
    const std::uint8_t* pixel = from + 3 * taps.first;
    for (int tap = 0; tap < taps.count; ++tap, pixel += 3) {
      const std::int32_t weight = taps.weights[tap];
      red += weight * pixel[0];
      green += weight * pixel[1];
      blue += weight * pixel[2];
    }
    to[0] = to_byte(red);
    to[1] = to_byte(green);
    to[2] = to_byte(blue);
  }
}

void mirror_row(std::uint8_t* row, int side) {
  for (int left = 0, right = side - 1; left < right; ++left, --right)
    std::swap_ranges(row + 3 * left, row + 3 * left + 3, row + 3 * right);
}

}  // namespace

void resize(const Picture& picture, const Crop& crop, int side, std::uint8_t* to) {
  const auto bound = [&crop](double low, double high, int size) {
    if (!crop.cuts) return std::pair{0, size};
    const int first = std::clamp(static_cast<int>(low), 0, size - 1);
    return std::pair{first, std::clamp(static_cast<int>(std::ceil(high)), first + 1, size)};
  };
  const auto [left, right] = bound(crop.box.left, crop.box.right, picture.width);
  const auto [top, bottom] = bound(crop.box.top, crop.box.bottom, picture.height);
  const Filter columns(crop.box.left, crop.box.right, left, right, side),
      rows(crop.box.top, crop.box.bottom, top, bottom, side);
  const int first = rows[0].first, last = rows[side - 1].first + rows[side - 1].count;
  const auto row_bytes = std::size_t{3} * static_cast<std::size_t>(side);
  std::vector<std::uint8_t> narrow(row_bytes * static_cast<std::size_t>(last - first));
  for (int y = first; y < last; ++y) {
    std::uint8_t* const row = narrow.data() + row_bytes * static_cast<std::size_t>(y - first);
    resize_row(picture.row(y), columns, side, row);
    if (crop.mirror) mirror_row(row, side);
  }
  std::vector<std::int32_t> sums(row_bytes);
  for (int y = 0; y < side; ++y, to += row_bytes) {
    const Taps& taps = rows[y];
    std::fill(sums.begin(), sums.end(), half);
    for (int tap = 0; tap < taps.count; ++tap) {
      const std::uint8_t* const row =
          narrow.data() + row_bytes * static_cast<std::size_t>(taps.first + tap - first);
      const std::int32_t weight = taps.weights[tap];
      for (std::size_t i = 0; i < row_bytes; ++i) sums[i] += weight * row[i];
    }
    std::transform(sums.begin(), sums.end(), to, to_byte);
  }
}

}  // namespace muster::pictures
