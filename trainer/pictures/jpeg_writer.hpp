// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "pictures/picture.hpp"

namespace muster::pictures {

/// How a JPEG file is written.
struct JpegOptions {
  int quality = 90;
  bool progressive = false;
  bool grey = false;    ///< the mean of the colours
  bool cmyk = false;    ///< inverted, with Adobe's marker
  int orientation = 1;  ///< in EXIF; the pixels are stored as they are
};

/// @throws muster::Error(ErrorCode::system)
std::vector<std::uint8_t> write_jpeg(const Picture& picture, const JpegOptions& options);

}  // namespace muster::pictures
