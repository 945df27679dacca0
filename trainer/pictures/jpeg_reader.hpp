// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "pictures/picture.hpp"

namespace muster::pictures {

/// Decodes one JPEG file by libjpeg: baseline or progressive; grey, colour, CMYK or YCCK. The bytes must
/// outlive the reader. What libjpeg would only warn of while it makes up pixels is an error here.
class JpegReader {
 public:
  /// Reads the header.
  /// @throws BadPicture
  explicit JpegReader(std::span<const std::uint8_t> bytes);
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  int width() const;
  int height() const;
  int orientation() const;
  /// Decodes, once. `shrink`: 1, 2, 4 or 8; then libjpeg computes a picture of that fraction of the size,
  /// rounded up, from the low frequencies alone.
  /// @throws BadPicture
  Picture decode(int shrink);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::pictures
