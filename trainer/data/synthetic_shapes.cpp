// SPDX-License-Identifier: Apache-2.0
#include "data/synthetic_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "data/random_stream.hpp"

namespace muster::data {
namespace {

constexpr int shapes = 10;
/// Points in each direction of a pixel, so that edges are soft.
constexpr int points = 2;

/// Whether (x, y) belongs to the shape, which reaches from -1 to 1.
bool is_inside(int shape, double x, double y) {
  const double radius = std::hypot(x, y), ax = std::abs(x), ay = std::abs(y), largest = std::max(ax, ay);
  const auto stripe = [](double at) { return std::lround(std::floor((at + 1) * 2.5)) % 2 == 0; };
  switch (shape) {
    case 0:  // disc
      return radius < 0.9;
    case 1:  // ring
      return radius < 1 && radius > 0.6;
    case 2:  // square
      return largest < 0.8;
    case 3:  // frame
      return largest < 0.9 && largest > 0.55;
    case 4:  // triangle
      return y < 0.75 && y > 1.7 * ax - 0.95;
    case 5:  // cross
      return largest < 1 && std::min(ax, ay) < 0.28;
    case 6:  // half disc
      return radius < 1 && y > 0;
    case 7:  // stripes
      return largest < 1 && stripe(y);
    case 8:  // four squares
      return largest < 1 && stripe(x * 0.8) == stripe(y * 0.8);
    default:  // crescent
      return radius < 1 && std::hypot(x - 0.45, y) > 0.8;
  }
}

using Colour = std::array<double, 3>;

/// A colour of the circle; `hue` in turns, `strength` and `light` from 0 to 1.
Colour colour_of(double hue, double strength, double light) {
  Colour colour{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double wave = 0.5 + 0.5 * std::cos(2 * std::numbers::pi * (hue - static_cast<double>(i) / 3));
    colour[i] = light * (1 - strength + strength * wave);
  }
  return colour;
}

/// Where a shape is: drawn for an image of CIFAR's size, and scaled to another one.
class Placement {
 public:
  Placement(RandomStream& rng, double scale, double left, double top)
      : x_(left + scale * rng.between(11, 21)),
        y_(top + scale * rng.between(11, 21)),
        size_(scale * rng.between(6, 11)) {
    const double turn = rng.between(-0.35, 0.35);
    cos_ = std::cos(turn) / size_;
    sin_ = std::sin(turn) / size_;
  }
  /// Share of a pixel that the shape covers.
  double covered(int shape, int column, int row) const {
    int inside = 0;
    for (int point = 0; point < points * points; ++point) {
      const double x = column + (point % points + 0.5) / points - x_,
                   y = row + (point / points + 0.5) / points - y_;
      inside += is_inside(shape, cos_ * x + sin_ * y, cos_ * y - sin_ * x) ? 1 : 0;
    }
    return static_cast<double>(inside) / (points * points);
  }

 private:
  double x_, y_, size_, cos_, sin_;
};

std::uint8_t to_byte(double value) {
  return static_cast<std::uint8_t>(std::lround(255 * std::clamp(value, 0.0, 1.0)));
}

/// The colours of shape and background, and the noise.
class Paint {
 public:
  Paint(RandomStream& rng, double hue)
      : front_(colour_of(hue, rng.between(0.6, 1.0), rng.between(0.7, 1.0))),
        back_(colour_of(rng.unit(), rng.between(0.2, 1.0), rng.between(0.1, 0.5))),
        noise_(rng.between(0.05, 0.3)) {}
  std::uint8_t pixel(double covered, std::size_t channel, RandomStream& rng) const {
    return to_byte(back_[channel] + covered * (front_[channel] - back_[channel]) +
                   noise_ * (rng.unit() - 0.5));
  }

 private:
  Colour front_, back_;
  double noise_;
};

}  // namespace

ShapeImage draw_shape(std::uint64_t seed, std::uint64_t stream, std::uint64_t image, int classes) {
  constexpr std::uint64_t draws_per_image = std::uint64_t{1} << 12;
  static_assert(cifar_pixels + 64 < draws_per_image);
  RandomStream rng(seed, stream, image * draws_per_image);
  ShapeImage drawn;
  drawn.label = static_cast<std::uint8_t>(rng.pick(classes));
  const int tenth = drawn.label % 10, shape = classes == shapes ? drawn.label : drawn.label / 10;
  const double hue = classes == shapes ? rng.unit() : (tenth + rng.between(0.15, 0.85)) / 10;
  const Placement placement(rng, 1, 0, 0);
  const Paint paint(rng, hue);
  for (int row = 0; row < cifar_side; ++row) {
    for (int column = 0; column < cifar_side; ++column) {
      const double covered = placement.covered(shape, column, row);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const std::size_t at = (channel * cifar_side + static_cast<std::size_t>(row)) * cifar_side;
        drawn.planes[at + static_cast<std::size_t>(column)] = paint.pixel(covered, channel, rng);
      }
    }
  }
  return drawn;
}

ShapePicture draw_shape_picture(std::uint64_t seed, std::uint64_t stream, std::uint64_t picture, int shape) {
  constexpr std::uint64_t draws_per_picture = std::uint64_t{1} << 20;
  constexpr int least_side = 72, sides = 89;
  static_assert(3 * (least_side + sides) * (least_side + sides) + 64 < draws_per_picture);
  RandomStream rng(seed, stream, picture * draws_per_picture);
  ShapePicture drawn;
  drawn.width = least_side + rng.pick(sides);
  drawn.height = least_side + rng.pick(sides);
  const int shorter = std::min(drawn.width, drawn.height);
  const double hue = (shape + rng.between(0.15, 0.85)) / shapes;
  const Placement placement(rng, static_cast<double>(shorter) / cifar_side, (drawn.width - shorter) / 2.0,
                            (drawn.height - shorter) / 2.0);
  const Paint paint(rng, hue);
  for (int row = 0; row < drawn.height; ++row) {
    for (int column = 0; column < drawn.width; ++column) {
      const double covered = placement.covered(shape, column, row);
      for (std::size_t channel = 0; channel < 3; ++channel)
        drawn.pixels.push_back(paint.pixel(covered, channel, rng));
    }
  }
  return drawn;
}

}  // namespace muster::data
