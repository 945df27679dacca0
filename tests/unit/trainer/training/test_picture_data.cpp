// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "catch.hpp"
#include "has.hpp"
#include "pictures/jpeg_writer.hpp"
#include "pictures/png_writer.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"
#include "training/picture_data.hpp"

using namespace muster;

namespace {

constexpr int side = 8;
constexpr std::size_t elements = 3 * side * side;

/// A picture with number * 20 of red and green, and more blue from left to right.
std::string drawn_picture(int number) {
  pictures::Picture picture(24, 16);
  std::fill(picture.pixels.begin(), picture.pixels.end(), static_cast<std::uint8_t>(number * 20));
  for (std::size_t i = 2; i < picture.pixels.size(); i += 3)
    picture.pixels[i] = static_cast<std::uint8_t>(i % 72 * 3);
  const auto bytes = pictures::write_png(picture);
  return {bytes.begin(), bytes.end()};
}

/// Twelve pictures to train on and four held out, of two classes; in each part one is damaged.
PictureData drawn_pictures(const TemporaryFolder& folder, const PictureData::Settings& settings) {
  for (int i = 0; i < 12; ++i) {
    const std::string name = (i % 2 == 0 ? "train/a/" : "train/b/") + std::to_string(10 + i) + ".png";
    folder.write(name, i == 5 ? drawn_picture(i).substr(0, 60) : drawn_picture(i));
  }
  for (int i = 0; i < 4; ++i)
    folder.write("val/a/" + std::to_string(i) + ".png", i == 1 ? "nothing" : drawn_picture(i));
  return {picture_sets::open_picture_set({folder.path().string(), "", "", 0.1}), settings};
}

struct Loaded {
  std::vector<float> pixels;
  std::vector<compute::Token> labels;
  bool operator==(const Loaded&) const = default;
};

Loaded load(ImageLoader<float>& loader, std::uint64_t first, std::uint64_t count) {
  Loaded loaded{std::vector<float>(count * elements), std::vector<compute::Token>(count)};
  loader.load(first, count, loaded.pixels.data(), loaded.labels.data());
  return loaded;
}

}  // namespace

TEST_CASE("samples of pictures are the same for any threads, order and prefetching", "[pictures]") {
  const TemporaryFolder folder;
  const PictureData alone = drawn_pictures(folder, {true, 0}), threads = drawn_pictures(folder, {true, 3});
  const Permutation order(alone.count(), 5);
  const auto one = alone.make_loader({5, true, side, 1}, order, 0.0f);
  const auto many = threads.make_loader({5, true, side, 2}, order, 0.0f);
  const Loaded whole = load(*one, 0, 36);
  Loaded parts;
  for (std::uint64_t first = 0; first < 36; first += 6) {
    const Share shares[] = {{first, first + 6}, {first + 6, first + 12}};
    many->prefetch(shares);
    const Loaded part = load(*many, first, 6);
    parts.pixels.insert(parts.pixels.end(), part.pixels.begin(), part.pixels.end());
    parts.labels.insert(parts.labels.end(), part.labels.begin(), part.labels.end());
  }
  CHECK(parts == whole);
  CHECK(load(*many, 20, 3).labels == std::vector(whole.labels.begin() + 20, whole.labels.begin() + 23));
  CHECK(load(*alone.make_loader({6, true, side, 1}, order, 0.0f), 0, 36) != whole);
}

TEST_CASE("a damaged picture ends the run, or the epoch's next one takes its place", "[pictures]") {
  const TemporaryFolder folder;
  const PictureData stops = drawn_pictures(folder, {false, 1}), skips = drawn_pictures(folder, {true, 1});
  const Permutation order(stops.count(), 5);
  const auto stopping = stops.make_loader({5, false, side, 1}, order, 0.0f);
  const std::string error = usage_error_text([&] { load(*stopping, 0, 12); });
  CHECK(has(error, "train/b/15.png cannot be used: it is truncated"));
  CHECK(has(error, "--on-bad-image=skip"));

  const auto skipping = skips.make_loader({5, false, side, 1}, order, 0.0f);
  const Loaded loaded = load(*skipping, 0, 12);
  REQUIRE(skipping->left_out().size() == 1);
  CHECK(has(skipping->left_out()[0], "train/b/15.png: it is truncated"));
  std::vector<float> reds;
  for (std::size_t i = 0; i < 12; ++i) reds.push_back(loaded.pixels[i * elements]);
  std::uint64_t damaged = 0;  // the sample that has the picture number 8: 6 of a, then 11, 13 and 15
  while (order.at(0, damaged) != 8) ++damaged;
  CHECK(reds[damaged] == reds[(damaged + 1) % 12]);
  std::sort(reds.begin(), reds.end());
  CHECK(std::unique(reds.begin(), reds.end()) - reds.begin() == 11);
}

TEST_CASE("a damaged picture is left out of the validation", "[pictures]") {
  const TemporaryFolder folder;
  const PictureData data = drawn_pictures(folder, {true, 1});
  const Permutation order(data.count(), 5);
  const auto loader = data.make_loader({5, true, side, 1}, order, 0.0f);
  std::vector<float> pixels(4 * elements);
  std::vector<compute::Token> labels(4);
  REQUIRE(loader->load_held_out(0, 4, pixels.data(), labels.data()) == 3);
  // Red and green, normalized.
  CHECK(pixels[0] == Approx(-0.485f / 0.229f));
  CHECK(pixels[elements] == Approx((40 / 255.0f - 0.485f) / 0.229f));
  CHECK(pixels[2 * elements + 1] == Approx((60 / 255.0f - 0.456f) / 0.224f));
  CHECK(has(loader->left_out().at(0), "val/a/1.png: it is neither JPEG nor PNG"));
}
