// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace muster::pictures {

/// Pixels of a picture: red, green and blue bytes, row by row.
struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> pixels;

  Picture() = default;
  Picture(int width_, int height_)
      : width(width_),
        height(height_),
        pixels(static_cast<std::size_t>(3) * static_cast<std::size_t>(width_) *
               static_cast<std::size_t>(height_)) {}
  std::uint8_t* row(int y) { return pixels.data() + offset(y); }
  const std::uint8_t* row(int y) const { return pixels.data() + offset(y); }

 private:
  std::size_t offset(int y) const {
    return static_cast<std::size_t>(3) * static_cast<std::size_t>(width) * static_cast<std::size_t>(y);
  }
};

/// Most pixels of a picture that is read: Pillow warns above this number, since a file of a few kilobytes can
/// ask for gigabytes.
inline constexpr std::int64_t max_pixels = 89'478'485;

/// A picture that cannot be used; the text says why, without the file's name.
class BadPicture : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// @throws BadPicture when there are no pixels or more than max_pixels.
void check_size(std::int64_t width, std::int64_t height);

}  // namespace muster::pictures
