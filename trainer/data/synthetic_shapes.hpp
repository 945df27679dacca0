// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/cifar.hpp"

namespace muster::data {

/// A coloured shape on a coloured background, in CIFAR's order of bytes.
struct ShapeImage {
  std::array<std::uint8_t, cifar_pixels> planes{};
  std::uint8_t label = 0;
};

/// Draws image number `image` of a seed's stream: one of ten shapes, moved, turned and scaled, with random
/// colours and noise. With 10 classes the label is the shape; with 100 it is 10 * shape + the tenth of the
/// colour circle that the shape's colour is in. Equal arguments give equal images on machines whose libm
/// agrees to the last bit.
ShapeImage draw_shape(std::uint64_t seed, std::uint64_t stream, std::uint64_t image, int classes);

/// Names of the ten shapes.
inline constexpr std::array<const char*, 10> shape_names{
    "disc", "ring", "square", "frame", "triangle", "cross", "half-disc", "stripes", "squares", "crescent"};

/// A shape in red, green and blue bytes, row by row.
struct ShapePicture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> pixels;
};

/// Draws a picture of 72 to 160 pixels in each direction with this shape, whose colour is in a tenth of the
/// colour circle of its own; otherwise as draw_shape().
ShapePicture draw_shape_picture(std::uint64_t seed, std::uint64_t stream, std::uint64_t picture, int shape);

}  // namespace muster::data
