// SPDX-License-Identifier: Apache-2.0
#include "pictures/encoded_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "pictures/orientation.hpp"

namespace muster::pictures {
namespace {

bool starts_with(std::span<const std::uint8_t> bytes, std::initializer_list<std::uint8_t> start) {
  return bytes.size() >= start.size() && std::equal(start.begin(), start.end(), bytes.begin());
}

bool is_jpeg(std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) throw BadPicture("it is empty");
  if (starts_with(bytes, {0xff, 0xd8})) return true;
  if (starts_with(bytes, {0x89, 'P', 'N', 'G'})) return false;
  throw BadPicture("it is neither JPEG nor PNG");
}

}  // namespace

void check_size(std::int64_t width, std::int64_t height) {
  if (width <= 0 || height <= 0) throw BadPicture("it has no pixels");
  if (width <= max_pixels / height) return;
  throw BadPicture(
      fmt::format("it is too large: {} x {} pixels, where at most {} are read", width, height, max_pixels));
}

EncodedPicture::EncodedPicture(std::span<const std::uint8_t> bytes)
    : reader_(is_jpeg(bytes) ? Reader(std::in_place_type<JpegReader>, bytes)
                             : Reader(std::in_place_type<PngReader>, bytes)),
      orientation_(std::visit([](const auto& reader) { return reader.orientation(); }, reader_)) {}

int EncodedPicture::stored_width() const {
  return std::visit([](const auto& reader) { return reader.width(); }, reader_);
}
int EncodedPicture::stored_height() const {
  return std::visit([](const auto& reader) { return reader.height(); }, reader_);
}
bool EncodedPicture::is_sideways() const { return pictures::is_sideways(orientation_); }

Picture EncodedPicture::decode(int shrink) {
  auto* const jpeg = std::get_if<JpegReader>(&reader_);
  return make_upright(jpeg != nullptr ? jpeg->decode(shrink) : std::get<PngReader>(reader_).decode(),
                      orientation_);
}

}  // namespace muster::pictures
