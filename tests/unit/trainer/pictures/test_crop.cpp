// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "catch.hpp"
#include "pictures/crop.hpp"
#include "pictures/resize.hpp"

using namespace muster::pictures;

TEST_CASE("random crops have the areas and ratios of Szegedy et al.", "[pictures]") {
  constexpr int width = 500, height = 375, draws = 4000;
  double area = 0, least_area = 1, mirrored = 0;
  for (std::uint64_t sample = 0; sample < draws; ++sample) {
    const Crop crop = draw_crop(3, sample, width, height);
    const Box& box = crop.box;
    const double share = box.width() * box.height() / (width * height), ratio = box.width() / box.height();
    REQUIRE(box.left >= 0);
    REQUIRE(box.top >= 0);
    REQUIRE(box.right <= width);
    REQUIRE(box.bottom <= height);
    CHECK(ratio > 0.73);
    CHECK(ratio < 1.36);
    area += share / draws;
    least_area = std::min(least_area, share);
    mirrored += crop.mirror ? 1.0 / draws : 0;
  }
  CHECK(least_area > 0.07);
  CHECK(least_area < 0.09);
  // Uniform from 0.08 to 1, without the largest ones of a ratio that the picture does not have.
  CHECK(area > 0.42);
  CHECK(area < 0.54);
  CHECK(std::abs(mirrored - 0.5) < 0.03);
}

TEST_CASE("a crop is a function of seed and sample", "[pictures]") {
  const auto text = [](const Crop& crop) {
    return std::vector<double>{crop.box.left, crop.box.top, crop.box.right, crop.box.bottom,
                               crop.mirror ? 1.0 : 0.0};
  };
  CHECK(text(draw_crop(1, 9, 300, 200)) == text(draw_crop(1, 9, 300, 200)));
  CHECK(text(draw_crop(1, 9, 300, 200)) != text(draw_crop(1, 10, 300, 200)));
  CHECK(text(draw_crop(1, 9, 300, 200)) != text(draw_crop(2, 9, 300, 200)));
}

TEST_CASE("of a picture that is too long for each box the middle is taken", "[pictures]") {
  bool found = false;
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    const Box box = draw_crop(1, sample, 1000, 3).box;
    found = found || (box.left == 498 && box.right == 502 && box.top == 0 && box.bottom == 3);
  }
  CHECK(found);
  CHECK(draw_crop(1, 0, 1, 1).box.width() == 1);
}

TEST_CASE("the middle of a picture is cut out for validation", "[pictures]") {
  const Box box = middle_crop(512, 768, 224).box;  // twice 256 x 384
  CHECK(box.left == 32);
  CHECK(box.right == 480);
  CHECK(box.top == 160);
  CHECK(box.bottom == 608);
  const Box small = middle_crop(8, 8, 28).box;  // is enlarged
  CHECK(small.width() == Approx(7));
}

TEST_CASE("JPEGs are decoded at a fraction that leaves the pixels that are needed", "[pictures]") {
  CHECK(choose_shrink({0, 0, 500, 375}, 224) == 1);
  CHECK(choose_shrink({0, 0, 500, 448}, 224) == 2);
  CHECK(choose_shrink({10, 10, 266, 300}, 32) == 8);
  CHECK(choose_shrink({0, 0, 10, 10}, 32) == 1);
}

TEST_CASE("a mirrored crop is the mirror image", "[pictures]") {
  Picture picture(9, 7);
  std::iota(picture.pixels.begin(), picture.pixels.end(), std::uint8_t{0});
  const Box box{1, 2, 8, 7};
  constexpr int side = 5;
  std::vector<std::uint8_t> straight(3 * side * side), mirrored(straight.size());
  resize(picture, {box, true, false}, side, straight.data());
  resize(picture, {box, true, true}, side, mirrored.data());
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const auto at = [y](int column) { return static_cast<std::size_t>(3 * (y * side + column)); };
      CHECK(std::equal(&straight[at(x)], &straight[at(x)] + 3, &mirrored[at(side - 1 - x)]));
    }
  }
}
