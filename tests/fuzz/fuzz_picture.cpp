// SPDX-License-Identifier: Apache-2.0
// A JPEG or PNG file; the first byte chooses at which fraction of its size it is decoded. Pictures with more
// than a million pixels are left out, since those take the fuzzer's time.
#include <cstdlib>

#include "pictures/encoded_picture.hpp"
#include "pictures/resize.hpp"
#include "printable_error.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    pictures::EncodedPicture encoded({data + 1, size - 1});
    const int width = encoded.width(), height = encoded.height();
    if (width <= 0 || height <= 0 || width > pictures::max_pixels / height) std::abort();
    if (width > 1'000'000 / height) return 0;
    const int shrink = 1 << (data[0] % 4);
    const pictures::Picture picture = encoded.decode(shrink);
    if (picture.width > width || picture.height > height) std::abort();
    if (picture.width < width / 8 || picture.height < height / 8) std::abort();
    std::uint8_t small[3 * 8 * 8];
    pictures::resize(picture, pictures::draw_crop(1, data[0], picture.width, picture.height), 8, small);
  } catch (const pictures::BadPicture& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
