// SPDX-License-Identifier: Apache-2.0
#include "pictures/orientation.hpp"

#include <algorithm>

namespace muster::pictures {
namespace {

/// Integers of a TIFF structure. Reading behind its end gives 0.
class TiffBytes {
 public:
  explicit TiffBytes(std::span<const std::uint8_t> bytes)
      : bytes_(bytes), big_endian_(!bytes.empty() && bytes[0] == 'M') {}
  std::uint32_t integer(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | bytes_[at + (big_endian_ ? i : size - 1 - i)];
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool big_endian_;
};

}  // namespace

int read_orientation(std::span<const std::uint8_t> tiff) {
  constexpr std::uint32_t orientation_tag = 0x112, short_type = 3;
  constexpr std::size_t entry_bytes = 12;
  const TiffBytes bytes(tiff);
  if (bytes.integer(2, 2) != 42) return 1;
  const std::size_t folder = bytes.integer(4, 4);
  const std::size_t entries = bytes.integer(folder, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = folder + 2 + i * entry_bytes;
    if (bytes.integer(entry, 2) != orientation_tag) continue;
    const std::uint32_t value = bytes.integer(entry + 8, 2);
    const bool fits = bytes.integer(entry + 2, 2) == short_type && value >= 1 && value <= 8;
    return fits ? static_cast<int>(value) : 1;
  }
  return 1;
}

Picture make_upright(Picture picture, int orientation) {
  if (orientation == 1) return picture;
  const bool sideways = is_sideways(orientation);
  const int width = sideways ? picture.height : picture.width,
            height = sideways ? picture.width : picture.height;
  // Where in the stored picture the upright picture's columns and rows run backwards.
  const bool mirrors_x = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool mirrors_y = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  Picture upright(width, height);
  for (int y = 0; y < height; ++y) {
    std::uint8_t* to = upright.row(y);
    const int from_y = mirrors_y ? height - 1 - y : y;
    for (int x = 0; x < width; ++x, to += 3) {
      const int from_x = mirrors_x ? width - 1 - x : x;
      const std::uint8_t* from =
          sideways ? picture.row(from_x) + 3 * from_y : picture.row(from_y) + 3 * from_x;
      std::copy_n(from, 3, to);
    }
  }
  return upright;
}

}  // namespace muster::pictures
