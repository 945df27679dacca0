// SPDX-License-Identifier: Apache-2.0
#include "pictures/jpeg_writer.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
// After cstdio, which it needs.
#include <jpeglib.h>

#include "muster/error.hpp"

namespace muster::pictures {
namespace {

/// EXIF with an orientation alone: big-endian, one entry of type short.
constexpr std::uint8_t exif[] = {'E', 'x',  'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,
                                 1,   0x12, 0,   3,   0, 0, 0,   1,   0, 0,  0, 0, 0, 0, 0, 0};
constexpr std::size_t exif_orientation = 25;

/// libjpeg leaves write() by longjmp after an error, so it has no variables with destructors.
struct Writer {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf jump{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  ~Writer() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
  bool write(const Picture& picture, const JpegOptions& options, std::uint8_t* row);
};

int component_count(const JpegOptions& options) { return options.cmyk ? 4 : options.grey ? 1 : 3; }

/// A row in the components of the file.
void convert_row(const std::uint8_t* from, int width, const JpegOptions& options, std::uint8_t* to) {
  if (!options.cmyk && !options.grey) {
    std::copy_n(from, 3 * width, to);
    return;
  }
  for (int x = 0; x < width; ++x, from += 3) {
    if (options.grey) {
      *to++ = static_cast<std::uint8_t>((from[0] + from[1] + from[2]) / 3);
    } else {  // without black ink, inverted
      to = std::copy_n(from, 3, to);
      *to++ = 255;
    }
  }
}

void write_exif(jpeg_compress_struct& info, int orientation) {
  std::uint8_t marker[sizeof exif];
  std::copy(std::begin(exif), std::end(exif), marker);
  marker[exif_orientation] = static_cast<std::uint8_t>(orientation);
  jpeg_write_marker(&info, JPEG_APP0 + 1, marker, sizeof marker);
}

bool Writer::write(const Picture& picture, const JpegOptions& options, std::uint8_t* row) {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = [](j_common_ptr from) {
    std::longjmp(static_cast<Writer*>(from->client_data)->jump, 1);
  };
  if (setjmp(jump) != 0) return false;
  info.client_data = this;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(picture.width);
  info.image_height = static_cast<JDIMENSION>(picture.height);
  info.input_components = component_count(options);
  info.in_color_space = options.cmyk ? JCS_CMYK : options.grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (options.orientation != 1) write_exif(info, options.orientation);
  for (int y = 0; y < picture.height; ++y) {
    convert_row(picture.row(y), picture.width, options, row);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

std::vector<std::uint8_t> write_jpeg(const Picture& picture, const JpegOptions& options) {
  Writer writer;
  std::vector<std::uint8_t> row(static_cast<std::size_t>(picture.width) *
                                static_cast<std::size_t>(component_count(options)));
  if (!writer.write(picture, options, row.data()))
    throw Error(ErrorCode::system, "libjpeg cannot write a picture");
  return {writer.bytes, writer.bytes + writer.size};
}

}  // namespace muster::pictures
