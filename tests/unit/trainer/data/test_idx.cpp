// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "content.hpp"
#include "data/idx.hpp"
#include "refusal.hpp"
#include "temporary_folder.hpp"

using namespace muster;
using data::ImageSet;
using data::LabelledImages;
namespace fs = std::filesystem;

namespace {

/// Two images of 2 x 2 pixels and their labels.
const std::string two_images("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02\x01\x02\x03\x04\x05\x06\x07\xff",
                             24);
const std::string two_labels("\0\0\x08\x01\0\0\0\x02\x09\0", 10);

/// The error text for these two files, or empty.
std::string idx_refusal(const TemporaryFolder& folder, const std::string& images, const std::string& labels) {
  write_file(folder / "images", images);
  write_file(folder / "labels", labels);
  return usage_error_text([&] { LabelledImages::read(folder / "images", folder / "labels", 2, 10); });
}

}  // namespace

TEST_CASE("IDX files are read in MNIST's layout, and written in the same", "[idx]") {
  const TemporaryFolder folder;
  REQUIRE(idx_refusal(folder, two_images, two_labels).empty());
  const auto images = LabelledImages::read(folder / "images", folder / "labels", 2, 10);
  CHECK(images.count() == 2);
  CHECK(images.label(0) == 9);
  CHECK(images.label(1) == 0);
  CHECK(images.planes(0)[3] == 4);
  CHECK(images.planes(1)[0] == 5);
  CHECK(images.planes(1)[3] == 255);
  const std::uint32_t extents[] = {2, 2, 2};
  const std::uint8_t pixels[] = {1, 2, 3, 4, 5, 6, 7, 255};
  data::write_idx(folder / "written", extents, pixels);
  CHECK(content(folder / "written") == two_images);
}

TEST_CASE("files that are not IDX are refused with the position and the value found there", "[idx]") {
  const TemporaryFolder folder;
  const auto with = [](std::string bytes, std::size_t at, char value) {
    bytes[at] = value;
    return bytes;
  };
  const auto check_error = [&](const std::string& images, const std::string& labels,
                               const std::string& what) {
    const std::string text = idx_refusal(folder, images, labels);
    CAPTURE(text, what);
    CHECK(text.find(folder.path().string()) != std::string::npos);
    CHECK(text.find(what) != std::string::npos);
  };
  check_error("", two_labels, "0 bytes, fewer than the 16");
  check_error(two_images.substr(0, 15), two_labels, "15 bytes");
  check_error(two_labels + two_images, two_labels, "0x00000801 and not 0x00000803");
  check_error(with(two_images, 2, '\x0d'), two_labels, "0x00000d03");
  check_error("\x1f\x8b\x08" + two_images, two_labels, "gunzip");
  check_error(with(two_images, 7, 3), two_labels, "3 x 2 x 2, but 8 bytes");
  check_error(two_images + "x", two_labels, "2 x 2 x 2, but 9 bytes");
  check_error(with(with(two_images, 8, '\xff'), 12, '\xff'), two_labels, "4278190082 x 4278190082, but 8");
  check_error(with(with(two_images, 7, 1), 15, 4), two_labels, "images of 2 x 4 pixels");
  check_error(with(two_images, 7, 0).substr(0, 16), with(two_labels, 7, 0).substr(0, 8), "no image");
  check_error(two_images, with(two_labels, 7, 1).substr(0, 9), "1 labels for the 2 images");
  check_error(two_images, with(two_labels, 9, 10), "label 10 at position 1");
}

TEST_CASE("when one of MNIST's four files is missing, the error names it", "[idx]") {
  const TemporaryFolder folder;
  const auto error_text = [&] { return usage_error_text([&] { ImageSet::read(folder.path(), 2, 10); }); };
  CHECK(error_text().find("train-images-idx3-ubyte") != std::string::npos);
  CHECK(error_text().find("make-data digits") != std::string::npos);
  write_file(folder / "train-images-idx3-ubyte.gz", "");
  CHECK(error_text().find("gunzip") != std::string::npos);
  for (const char* name : ImageSet::names)
    write_file(folder / name,
               std::string(name).find("images") != std::string::npos ? two_images : two_labels);
  CHECK(error_text().empty());
}
