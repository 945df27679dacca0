// SPDX-License-Identifier: Apache-2.0
#include "pictures/jpeg_reader.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
// After cstdio, which they need.
#include <jpeglib.h>
// After jpeglib.h, which it needs.
#include <jerror.h>

#include "pictures/orientation.hpp"

namespace muster::pictures {
namespace {

/// Scans of a progressive file. Each costs a pass over all coefficients, so that a small file with thousands
/// of them would take minutes.
constexpr int max_scans = 100;

/// Whether libjpeg warns of something that leaves all pixels as they were meant.
bool is_harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_ADOBE_XFORM || warning == JWRN_JFIF_MAJOR ||
         warning == JWRN_BOGUS_ICC;
}

/// The product of two shares of 255, rounded.
int multiply(int a, int b) { return (a * b + 127) / 255; }

/// Red, green and blue of CMYK. `inverted`: 0 means full ink, as Adobe's programs write it.
void mix_inks(const std::uint8_t* inks, bool inverted, int width, std::uint8_t* to) {
  for (int x = 0; x < width; ++x, inks += 4) {
    const auto light = [&](int ink) { return inverted ? inks[ink] : 255 - inks[ink]; };
    const int key = light(3);
    // Rounded as Pillow does it, which subtracts the absorbed light.
    for (int ink = 0; ink < 3; ++ink)
      *to++ = static_cast<std::uint8_t>(std::clamp(key - multiply(255 - light(ink), key), 0, 255));
  }
}

}  // namespace

/// libjpeg leaves its functions by longjmp after an error. So the functions that return bool call it, and
/// have no variables with destructors; false means that `why` has the reason.
struct JpegReader::State {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  char why[JMSG_LENGTH_MAX] = "";

  ~State() { jpeg_destroy_decompress(&info); }

  template <typename Info>
  static State& of(Info info) {
    return *static_cast<State*>(info->client_data);
  }
  [[noreturn]] void fail(const char* text) {
    std::snprintf(why, sizeof why, "%s", text);
    std::longjmp(jump, 1);
  }
  [[noreturn]] static void fail_with_message(j_common_ptr info) {
    State& state = of(info);
    state.errors.format_message(info, state.why);
    std::longjmp(state.jump, 1);
  }
  static void refuse_warning(j_common_ptr info, int level) {
    if (level < 0 && !is_harmless(info->err->msg_code)) fail_with_message(info);
  }
  [[noreturn]] static boolean refuse_end(j_decompress_ptr info) {
    of(info).fail("it is truncated: its data ends too early");
  }
  static void skip(j_decompress_ptr info, long count) {
    jpeg_source_mgr& from = *info->src;
    if (count <= 0) return;
    if (static_cast<unsigned long>(count) > from.bytes_in_buffer) refuse_end(info);
    from.next_input_byte += count;
    from.bytes_in_buffer -= static_cast<std::size_t>(count);
  }
  static void limit_scans(j_common_ptr info) {
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > max_scans)
      of(info).fail("it has more than 100 scans");
  }

  bool read_header(const std::uint8_t* bytes, std::size_t size);
  bool start(int shrink);
  bool read_rows(std::uint8_t* to);
};

bool JpegReader::State::read_header(const std::uint8_t* bytes, std::size_t size) {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = fail_with_message;
  errors.emit_message = refuse_warning;
  if (setjmp(jump) != 0) return false;
  info.client_data = this;
  jpeg_create_decompress(&info);
  source.init_source = [](j_decompress_ptr) {};
  source.fill_input_buffer = [](j_decompress_ptr from) -> boolean { refuse_end(from); };
  source.skip_input_data = skip;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = [](j_decompress_ptr) {};
  source.next_input_byte = bytes;
  source.bytes_in_buffer = size;
  info.src = &source;
  progress.progress_monitor = limit_scans;
  info.progress = &progress;
  jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&info, TRUE);
  return true;
}

bool JpegReader::State::start(int shrink) {
  if (setjmp(jump) != 0) return false;
  const bool has_inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = has_inks ? JCS_CMYK : JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(shrink);
  jpeg_start_decompress(&info);
  return true;
}

bool JpegReader::State::read_rows(std::uint8_t* to) {
  if (setjmp(jump) != 0) return false;
  const bool has_inks = info.out_color_space == JCS_CMYK;
  const JDIMENSION width = info.output_width;
  JSAMPARRAY inks = nullptr;
  if (has_inks)
    inks = info.mem->alloc_sarray(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE, 4 * width, 1);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = to + std::size_t{3} * width * info.output_scanline;
    jpeg_read_scanlines(&info, has_inks ? inks : &row, 1);
    if (has_inks) mix_inks(inks[0], info.saw_Adobe_marker != 0, static_cast<int>(width), row);
  }
  jpeg_finish_decompress(&info);
  return true;
}

JpegReader::JpegReader(std::span<const std::uint8_t> bytes) : state_(std::make_unique<State>()) {
  if (!state_->read_header(bytes.data(), bytes.size())) throw BadPicture(state_->why);
  check_size(width(), height());
}

JpegReader::~JpegReader() = default;

int JpegReader::width() const { return static_cast<int>(state_->info.image_width); }
int JpegReader::height() const { return static_cast<int>(state_->info.image_height); }

int JpegReader::orientation() const {
  static constexpr char exif[] = "Exif\0";
  for (const jpeg_marker_struct* marker = state_->info.marker_list; marker != nullptr;
       marker = marker->next) {
    if (marker->data_length <= sizeof exif || std::memcmp(marker->data, exif, sizeof exif) != 0) continue;
    return read_orientation({marker->data + sizeof exif, marker->data_length - sizeof exif});
  }
  return 1;
}

Picture JpegReader::decode(int shrink) {
  State& state = *state_;
  if (!state.start(shrink)) throw BadPicture(state.why);
  Picture picture(static_cast<int>(state.info.output_width), static_cast<int>(state.info.output_height));
  if (!state.read_rows(picture.pixels.data())) throw BadPicture(state.why);
  return picture;
}

}  // namespace muster::pictures
