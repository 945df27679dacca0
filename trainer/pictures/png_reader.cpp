// SPDX-License-Identifier: Apache-2.0
#include "pictures/png_reader.hpp"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "pictures/orientation.hpp"

namespace muster::pictures {
namespace {

/// Of one chunk beside the pixels, such as a text or a colour profile.
constexpr png_alloc_size_t max_chunk_bytes = png_alloc_size_t{8} << 20;
constexpr png_uint_32 max_chunks = 1000;

/// Refuses a file with a chunk that ends behind it: libpng asks for an EXIF chunk's memory before it reads.
void check_chunks(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t signature = 8, around = 12;  // length, name and checksum around a chunk's content
  for (std::size_t at = signature; at + around <= bytes.size();) {
    const std::size_t length = std::size_t{bytes[at]} << 24 | std::size_t{bytes[at + 1]} << 16 |
                               std::size_t{bytes[at + 2]} << 8 | std::size_t{bytes[at + 3]};
    if (length > bytes.size() - at - around) break;
    if (std::memcmp(bytes.data() + at + 4, "IEND", 4) == 0) return;
    at += around + length;
  }
  throw BadPicture("it is truncated: its data ends too early");
}

}  // namespace

/// libpng leaves its functions by longjmp after an error. So the functions that return bool call it, and have
/// no variables with destructors; false means that `why` has the reason.
struct PngReader::State {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const std::uint8_t* next = nullptr;
  std::size_t left = 0;
  int orientation = 1;
  char why[160] = "";

  ~State() { png_destroy_read_struct(&png, &info, nullptr); }

  [[noreturn]] static void fail(png_structp png, const char* text) {
    auto& state = *static_cast<State*>(png_get_error_ptr(png));
    std::snprintf(state.why, sizeof state.why, "%s", text);
    png_longjmp(png, 1);
  }
  static void read(png_structp png, png_bytep to, std::size_t size) {
    auto& state = *static_cast<State*>(png_get_io_ptr(png));
    if (size > state.left) fail(png, "it is truncated: its data ends too early");
    std::memcpy(to, state.next, size);
    state.next += size;
    state.left -= size;
  }

  bool read_header(const std::uint8_t* bytes, std::size_t size);
  bool read_rows(png_bytepp rows);
  void find_orientation();
};

bool PngReader::State::read_header(const std::uint8_t* bytes, std::size_t size) {
  next = bytes;
  left = size;
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, [](png_structp, const char*) {});
  if (png != nullptr) info = png_create_info_struct(png);
  if (info == nullptr) {
    std::snprintf(why, sizeof why, "libpng has no memory for it");
    return false;
  }
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_read_fn(png, this, read);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size() looks at the pixels
  png_set_chunk_malloc_max(png, max_chunk_bytes);
  png_set_chunk_cache_max(png, max_chunks);
  png_read_info(png, info);
  find_orientation();
  return true;
}

void PngReader::State::find_orientation() {
  png_uint_32 size = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(png, info, &size, &exif) != 0) orientation = read_orientation({exif, size});
}

bool PngReader::State::read_rows(png_bytepp rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

PngReader::PngReader(std::span<const std::uint8_t> bytes) : state_(std::make_unique<State>()) {
  check_chunks(bytes);
  if (!state_->read_header(bytes.data(), bytes.size())) throw BadPicture(state_->why);
  check_size(png_get_image_width(state_->png, state_->info), png_get_image_height(state_->png, state_->info));
}

PngReader::~PngReader() = default;

int PngReader::width() const { return static_cast<int>(png_get_image_width(state_->png, state_->info)); }
int PngReader::height() const { return static_cast<int>(png_get_image_height(state_->png, state_->info)); }
int PngReader::orientation() const { return state_->orientation; }

Picture PngReader::decode() {
  Picture picture(width(), height());
  std::vector<png_bytep> rows;
  for (int y = 0; y < picture.height; ++y) rows.push_back(picture.row(y));
  if (!state_->read_rows(rows.data())) throw BadPicture(state_->why);
  return picture;
}

}  // namespace muster::pictures
