// SPDX-License-Identifier: Apache-2.0
#include "make_pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "data/synthetic_shapes.hpp"
#include "file/atomic_file.hpp"
#include "muster/error.hpp"
#include "pictures/jpeg_writer.hpp"
#include "pictures/orientation.hpp"
#include "pictures/png_writer.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

/// A picture without names: fsync for each would take longer than drawing it.
void write_picture(const fs::path& path, const Bytes& bytes) {
  AtomicFile file(path, path.string() + ".partial");
  file.write(bytes.data(), bytes.size());
  if (file.commit()) return;
  throw Error(ErrorCode::system,
              fmt::format("cannot write {}: {}", path.string(), std::strerror(file.error())));
}

/// How a picture is stored whose pixels EXIF turns to `upright`.
pictures::Picture turn_away(pictures::Picture upright, int orientation) {
  // Only the turns by 90 degrees are not their own inverse.
  const int back = orientation == 6 ? 8 : orientation == 8 ? 6 : orientation;
  return pictures::make_upright(std::move(upright), back);
}

pictures::Picture draw(const MakePicturesOptions& o, std::uint64_t stream, int number) {
  auto drawn =
      data::draw_shape_picture(o.seed, stream, static_cast<std::uint64_t>(number), number % o.classes);
  pictures::Picture picture;
  picture.width = drawn.width;
  picture.height = drawn.height;
  picture.pixels = std::move(drawn.pixels);
  return picture;
}

/// Every tenth round through the classes is of a kind of its own.
void write_kind(const fs::path& path, pictures::Picture picture, int round) {
  pictures::JpegOptions jpeg;
  switch (round % 10) {
    case 1:
      return write_picture(path.string() + ".png", pictures::write_png(picture));
    case 3:
      jpeg.grey = true;
      break;
    case 5:
      jpeg.progressive = true;
      break;
    case 7:
      jpeg.cmyk = true;
      break;
    case 9:
      jpeg.orientation = 2 + round / 10 % 7;
      picture = turn_away(std::move(picture), jpeg.orientation);
      break;
    default:
      break;
  }
  write_picture(path.string() + ".jpg", pictures::write_jpeg(picture, jpeg));
}

void write_part(const MakePicturesOptions& o, const fs::path& folder, std::uint64_t stream, int count) {
  for (int label = 0; label < o.classes; ++label) {
    std::error_code error;
    fs::create_directories(folder / data::shape_names[static_cast<std::size_t>(label)], error);
    if (error)
      throw Error(ErrorCode::system, fmt::format("cannot create {}: {}", folder.string(), error.message()));
  }
  for (int number = 0; number < count; ++number) {
    const fs::path to = folder / data::shape_names[static_cast<std::size_t>(number % o.classes)];
    write_kind(to / fmt::format("{:06}", number), draw(o, stream, number), number / o.classes);
  }
}

/// The first class gets three truncated pictures and one whose header asks for 61,680 x 61,680 pixels.
void write_bad(const MakePicturesOptions& o, const fs::path& folder) {
  for (int i = 0; i < 3; ++i) {
    Bytes bytes = i == 2 ? pictures::write_png(draw(o, 3, i))
                         : pictures::write_jpeg(draw(o, 3, i), {.progressive = i == 1});
    bytes.resize(bytes.size() * 3 / 4);
    write_picture(folder / fmt::format("truncated-{}.{}", i, i == 2 ? "png" : "jpg"), bytes);
  }
  Bytes giant = pictures::write_jpeg(draw(o, 3, 3), {});
  static constexpr std::uint8_t frame[]{0xff, 0xc0};
  const auto size = std::search(giant.begin(), giant.end(), std::begin(frame), std::end(frame)) + 5;
  std::fill_n(size, 4, std::uint8_t{0xf0});
  write_picture(folder / "giant.jpg", giant);
}

}  // namespace

void make_pictures(const MakePicturesOptions& o) {
  const fs::path folder(o.output), training = folder / "train", held_out = folder / "val";
  for (const fs::path& part : {training, held_out}) {
    std::error_code ignored;
    if (fs::exists(fs::symlink_status(part, ignored)))
      throw Error(ErrorCode::usage,
                  fmt::format("{} exists: remove it or name another --output", part.string()));
  }
  write_part(o, training, 1, o.training);
  write_part(o, held_out, 2, o.held_out);
  if (o.bad) write_bad(o, training / data::shape_names[0]);
  fmt::print(
      "{}: {} drawn shapes to train on, {} to validate with, as JPEG and PNG files in a folder for each of "
      "{} classes\n",
      o.output, o.training, o.held_out, o.classes);
  if (o.bad) fmt::print("and 4 that cannot be decoded: pass --on-bad-image=skip\n");
  fmt::print("train: muster-train --model=mobilenet-v1 --width-multiplier=0.25 --image-size=48 --data {}\n",
             o.output);
}

}  // namespace muster
