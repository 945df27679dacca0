// SPDX-License-Identifier: Apache-2.0
#include "pictures/png_writer.hpp"

#include <png.h>

#include "muster/error.hpp"

namespace muster::pictures {

std::vector<std::uint8_t> write_png(const Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> bytes(PNG_IMAGE_PNG_SIZE_MAX(image));
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.pixels.data(), 0, nullptr) == 0)
    throw Error(ErrorCode::system, "libpng cannot write a picture");
  bytes.resize(size);
  return bytes;
}

}  // namespace muster::pictures
