// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "pictures/jpeg_reader.hpp"
#include "pictures/picture.hpp"
#include "pictures/png_reader.hpp"

namespace muster::pictures {

/// A picture file in memory, JPEG or PNG, upright as EXIF says. The bytes must outlive it.
class EncodedPicture {
 public:
  /// Reads the header.
  /// @throws BadPicture: neither JPEG nor PNG, damaged, no pixels, more than max_pixels.
  explicit EncodedPicture(std::span<const std::uint8_t> bytes);

  /// Of the upright picture.
  int width() const { return is_sideways() ? stored_height() : stored_width(); }
  int height() const { return is_sideways() ? stored_width() : stored_height(); }
  /// Decodes, once. `shrink`: 1, 2, 4 or 8. JPEGs come out at that fraction of the size, rounded up, in less
  /// time; PNGs at their full size.
  /// @throws BadPicture: damaged or truncated.
  Picture decode(int shrink = 1);

 private:
  using Reader = std::variant<JpegReader, PngReader>;
  int stored_width() const;
  int stored_height() const;
  bool is_sideways() const;

  Reader reader_;
  int orientation_;
};

}  // namespace muster::pictures
