// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "catch.hpp"
#include "has.hpp"
#include "pictures/encoded_picture.hpp"
#include "pictures/jpeg_writer.hpp"
#include "pictures/png_writer.hpp"

using namespace muster::pictures;

namespace {

using Bytes = std::vector<std::uint8_t>;

/// Dark on the left, bright on the right, red above, blue below.
Picture slope(int width = 40, int height = 24) {
  Picture picture(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      std::uint8_t* const pixel = picture.row(y) + 3 * x;
      const int light = 60 + 150 * x / width;
      pixel[0] = static_cast<std::uint8_t>(light * (height - y) / height);
      pixel[1] = static_cast<std::uint8_t>(light / 2);
      pixel[2] = static_cast<std::uint8_t>(light * y / height);
    }
  }
  return picture;
}

Picture read(const Bytes& bytes, int shrink = 1) { return EncodedPicture(bytes).decode(shrink); }

/// Why the bytes are no picture; empty if they are one.
std::string trouble(const Bytes& bytes) {
  try {
    read(bytes);
  } catch (const BadPicture& bad) {
    CHECK(std::string(bad.what()).find('\n') == std::string::npos);
    return bad.what();
  }
  return "";
}

int largest_difference(const Picture& a, const Picture& b) {
  REQUIRE(a.width == b.width);
  REQUIRE(a.height == b.height);
  int largest = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i)
    largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  return largest;
}

}  // namespace

TEST_CASE("pictures that are written are read", "[pictures]") {
  const Picture picture = slope();
  CHECK(largest_difference(read(write_png(picture)), picture) == 0);
  CHECK(largest_difference(read(write_jpeg(picture, {.quality = 95})), picture) < 16);
  CHECK(largest_difference(read(write_jpeg(picture, {.quality = 95, .progressive = true})), picture) < 16);
  CHECK(largest_difference(read(write_jpeg(picture, {.quality = 95, .cmyk = true})), picture) < 16);
  const Picture grey = read(write_jpeg(picture, {.grey = true}));
  CHECK(grey.pixels[0] == grey.pixels[1]);
  CHECK(grey.pixels[0] == grey.pixels[2]);
}

TEST_CASE("EXIF turns a picture upright", "[pictures]") {
  const Picture stored = read(write_jpeg(slope(), {}));
  const auto pixel = [](const Picture& picture, int x, int y) {
    return Bytes(picture.row(y) + 3 * x, picture.row(y) + 3 * x + 3);
  };
  const auto turned = [](int orientation) {
    const Bytes bytes = write_jpeg(slope(), {.orientation = orientation});
    EncodedPicture picture(bytes);
    const auto is_sideways = [](int value) { return value >= 5 && value <= 8; };
    CHECK(picture.width() == (is_sideways(orientation) ? 24 : 40));
    CHECK(picture.height() == (is_sideways(orientation) ? 40 : 24));
    return picture.decode();
  };
  CHECK(pixel(turned(3), 0, 0) == pixel(stored, 39, 23));
  CHECK(pixel(turned(6), 0, 0) == pixel(stored, 0, 23));  // turned by 90 degrees clockwise
  CHECK(pixel(turned(8), 0, 0) == pixel(stored, 39, 0));  // and counter-clockwise
  CHECK(pixel(turned(5), 3, 7) == pixel(stored, 7, 3));
  CHECK(turned(77).width == 40);
}

TEST_CASE("a JPEG is decoded at a fraction of its size", "[pictures]") {
  const Picture half = read(write_jpeg(slope(41, 25), {}), 2);
  CHECK(half.width == 21);
  CHECK(half.height == 13);
}

TEST_CASE("each part of a file alone is refused as truncated", "[pictures]") {
  for (const Bytes& whole :
       {write_jpeg(slope(), {}), write_jpeg(slope(), {.progressive = true}), write_png(slope())}) {
    for (std::size_t size = 0; size + 1 < whole.size(); ++size)
      REQUIRE_FALSE(trouble(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))).empty());
    CHECK(has(trouble(Bytes(whole.begin(), whole.end() - 20)), "truncated"));
  }
}

TEST_CASE("damaged pixels are refused", "[pictures]") {
  Bytes jpeg = write_jpeg(slope(200, 200), {.quality = 100});
  const Bytes end{0xff, 0xd9};
  std::copy(end.begin(), end.end(), jpeg.begin() + static_cast<std::ptrdiff_t>(jpeg.size() / 2));
  CHECK_FALSE(trouble(jpeg).empty());
  Bytes png = write_png(slope());
  png[png.size() / 2] ^= 1;
  CHECK_FALSE(trouble(png).empty());
}

TEST_CASE("what is no picture is refused in a few words", "[pictures]") {
  CHECK(trouble({}) == "it is empty");
  CHECK(trouble({'G', 'I', 'F', '8'}) == "it is neither JPEG nor PNG");
}

TEST_CASE("a giant is refused before memory is asked for", "[pictures]") {
  Bytes jpeg = write_jpeg(slope(), {});
  const Bytes frame{0xff, 0xc0};
  const auto size = std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end()) + 5;
  std::fill_n(size, 4, std::uint8_t{0xf0});
  CHECK(trouble(jpeg) == "it is too large: 61680 x 61680 pixels, where at most 89478485 are read");
  Bytes png{137, 80, 78, 71, 13, 10, 26, 10,  0,   0,  0, 13, 73, 72, 68, 82, 0,  0,  234, 96,  0, 0, 234,
            96,  8,  2,  0,  0,  0,  15, 176, 226, 21, 0, 0,  0,  0,  73, 68, 65, 84, 53,  175, 6, 30};
  const Bytes end{0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
  png.insert(png.end(), end.begin(), end.end());
  CHECK(trouble(png) == "it is too large: 60000 x 60000 pixels, where at most 89478485 are read");
  Bytes exif = write_png(slope());
  const Bytes chunk{0x55, 0, 0, 0x1a, 'e', 'X', 'I', 'f', 'M', 'M'};
  exif.insert(exif.begin() + 33, chunk.begin(), chunk.end());  // behind the header
  CHECK(has(trouble(exif), "truncated"));
}
