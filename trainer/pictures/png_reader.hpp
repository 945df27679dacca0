// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "pictures/picture.hpp"

namespace muster::pictures {

/// Decodes one PNG file by libpng, of any kind. Of 16 bits the higher 8 are taken, and transparency is left
/// out, both as Pillow's convert("RGB") does it. The bytes must outlive the reader.
class PngReader {
 public:
  /// Reads up to the first pixels.
  /// @throws BadPicture
  explicit PngReader(std::span<const std::uint8_t> bytes);
  ~PngReader();
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  int width() const;
  int height() const;
  int orientation() const;
  /// Decodes, once.
  /// @throws BadPicture
  Picture decode();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::pictures
