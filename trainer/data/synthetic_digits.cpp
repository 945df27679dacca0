// SPDX-License-Identifier: Apache-2.0
#include "data/synthetic_digits.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "data/random_stream.hpp"

namespace muster::data {
namespace {

/// A point in the digit's box: x and y from -1 to 1, y downwards.
struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;

/// An arc of an ellipse between two angles, in turns: 0 is right, 1/4 is down.
Stroke arc(Point center, Point radius, double from, double to) {
  constexpr int parts_of_turn = 24;
  const int parts = std::max(2, static_cast<int>(std::ceil(std::abs(to - from) * parts_of_turn)));
  Stroke stroke;
  for (int i = 0; i <= parts; ++i) {
    const double angle = 2 * std::numbers::pi * (from + (to - from) * i / parts);
    stroke.push_back({center.x + radius.x * std::cos(angle), center.y + radius.y * std::sin(angle)});
  }
  return stroke;
}

Stroke line(Point from, Point to) {
  constexpr int parts = 6;  // so that the warp can bend it
  Stroke stroke;
  for (int i = 0; i <= parts; ++i)
    stroke.push_back({from.x + (to.x - from.x) * i / parts, from.y + (to.y - from.y) * i / parts});
  return stroke;
}

std::vector<Stroke> one(int shape) {
  std::vector<Stroke> strokes{line({0, -1}, {0, 1})};
  if (shape > 0) strokes.push_back(line({-0.45, -0.55}, {0, -1}));
  if (shape > 1) strokes.push_back(line({-0.45, 1}, {0.45, 1}));
  return strokes;
}

std::vector<Stroke> two(int shape) {
  std::vector<Stroke> strokes{arc({0, -0.45}, {0.55, 0.55}, 0.5, 1.1)};
  const Point end = strokes[0].back();
  strokes.push_back(line(end, {-0.6, 1}));
  if (shape == 2) {
    strokes.push_back(arc({-0.42, 0.82}, {0.2, 0.18}, 0.2, 1.2));
    strokes.push_back(arc({0.1, 0.75}, {0.5, 0.25}, 0.5, 0.95));
  }
  strokes.push_back(line({-0.6, 1}, {0.6, shape == 1 ? 0.8 : 1.0}));
  return strokes;
}

std::vector<Stroke> three(int shape) {
  if (shape == 1) {
    return {line({-0.5, -1}, {0.5, -1}), line({0.5, -1}, {-0.05, -0.2}),
            arc({-0.05, 0.4}, {0.6, 0.6}, -0.25, 0.4)};
  }
  return {arc({-0.05, -0.5}, {0.5, 0.5}, -0.42, 0.25), arc({-0.05, 0.5}, {0.6, 0.5}, -0.25, 0.42)};
}

std::vector<Stroke> four(int shape) {
  if (shape == 1)
    return {line({-0.5, -1}, {-0.55, 0.1}), line({-0.55, 0.1}, {0.6, 0.1}), line({0.35, -1}, {0.3, 1})};
  return {line({0.25, -1}, {-0.6, 0.3}), line({-0.6, 0.3}, {0.65, 0.3}),
          line({0.25, shape == 2 ? -0.3 : -1.0}, {0.25, 1})};
}

std::vector<Stroke> five(int shape) {
  const double left = shape == 1 ? -0.35 : -0.45;
  return {line({0.5, -1}, {left, -1}), line({left, -1}, {left - 0.05, -0.15}),
          arc({-0.05, 0.4}, {0.58, 0.58}, -0.36, shape == 2 ? 0.45 : 0.38)};
}

std::vector<Stroke> six(int shape) {
  if (shape == 1) return {line({0.3, -1}, {-0.5, 0.4}), arc({0, 0.45}, {0.52, 0.52}, 0, 1)};
  return {arc({0.5, 0.3}, {1.0, 1.3}, 0.51, 0.72), arc({0, 0.45}, {0.52, 0.52}, 0, 1)};
}

std::vector<Stroke> seven(int shape) {
  std::vector<Stroke> strokes{line({-0.55, -1}, {0.55, -1}), line({0.55, -1}, {-0.15, 1})};
  if (shape == 1) strokes.push_back(line({-0.25, 0}, {0.5, 0}));
  if (shape == 2) strokes.push_back(line({-0.55, -1}, {-0.55, -0.7}));
  return strokes;
}

std::vector<Stroke> eight(int shape) {
  const double upper = shape == 1 ? 0.38 : 0.45;
  if (shape == 2) {
    return {arc({0, -0.5}, {0.45, 0.48}, 0.1, 0.85), line({0.25, -0.15}, {-0.4, 0.35}),
            arc({0, 0.5}, {0.5, 0.48}, -0.45, 0.4), line({-0.3, 0.1}, {0.4, -0.6})};
  }
  return {arc({0, -1 + upper}, {upper, upper}, 0, 1), arc({0, upper}, {0.55, 1 - upper}, 0, 1)};
}

std::vector<Stroke> nine(int shape) {
  std::vector<Stroke> strokes{arc({0, -0.45}, {0.5, 0.52}, 0, 1)};
  if (shape == 0) strokes.push_back(line({0.5, -0.45}, {0.45, 1}));
  if (shape == 1) strokes.push_back(line({0.5, -0.45}, {-0.1, 1}));
  if (shape == 2) strokes.push_back(arc({-0.5, -0.3}, {1.0, 1.3}, 0.01, 0.2));
  return strokes;
}

std::vector<Stroke> digit_strokes(int digit, int shape) {
  switch (digit) {
    case 0:
      return {arc({0, 0}, {shape == 1 ? 0.45 : 0.65, 1}, 0, 1)};
    case 1:
      return one(shape);
    case 2:
      return two(shape);
    case 3:
      return three(shape);
    case 4:
      return four(shape);
    case 5:
      return five(shape);
    case 6:
      return six(shape);
    case 7:
      return seven(shape);
    case 8:
      return eight(shape);
    default:
      return nine(shape);
  }
}

/// Random distortion of one digit: a smooth warp of the box, then an affine map to pixels.
class Hand {
 public:
  explicit Hand(RandomStream& rng) {
    for (Wave* wave : {&across_, &along_}) {
      *wave = {rng.between(-0.16, 0.16), rng.between(0.2, 0.7), rng.between(0.2, 0.7), rng.unit()};
    }
    const double turn = rng.between(-0.3, 0.3), shear = rng.between(-0.35, 0.35);
    const double width = rng.between(6.0, 9.5), height = rng.between(7.0, 10.5);
    matrix_[0] = width * std::cos(turn);
    matrix_[1] = height * (shear * std::cos(turn) - std::sin(turn));
    matrix_[2] = width * std::sin(turn);
    matrix_[3] = height * (shear * std::sin(turn) + std::cos(turn));
    shift_ = {rng.between(-2.5, 2.5), rng.between(-2.5, 2.5)};
  }

  Point on_paper(Point p) const {
    const double x = p.x + across_.at(p), y = p.y + along_.at(p);
    constexpr double center = (digit_side - 1) / 2.0;
    return {center + shift_.x + matrix_[0] * x + matrix_[1] * y,
            center + shift_.y + matrix_[2] * x + matrix_[3] * y};
  }

 private:
  struct Wave {
    double height = 0, x = 0, y = 0, phase = 0;
    double at(Point p) const { return height * std::sin(2 * std::numbers::pi * (x * p.x + y * p.y + phase)); }
  };
  Wave across_, along_;
  double matrix_[4];
  Point shift_{};
};

double distance_to_segment(Point p, Point from, Point to) {
  const double x = to.x - from.x, y = to.y - from.y, square = x * x + y * y;
  const double along =
      square > 0 ? std::clamp(((p.x - from.x) * x + (p.y - from.y) * y) / square, 0.0, 1.0) : 0.0;
  return std::hypot(p.x - from.x - along * x, p.y - from.y - along * y);
}

using Ink = std::array<double, digit_side * digit_side>;

/// Draws a line with an edge that is one pixel soft; each pixel keeps its darkest value.
void draw_line(Ink& ink, Point from, Point to, double half_width) {
  const double reach = half_width + 1;
  const auto first = [&](double a, double b) {
    return std::clamp(static_cast<int>(std::floor(std::min(a, b) - reach)), 0, digit_side);
  };
  const auto last = [&](double a, double b) {
    return std::clamp(static_cast<int>(std::ceil(std::max(a, b) + reach)) + 1, 0, digit_side);
  };
  for (int y = first(from.y, to.y); y < last(from.y, to.y); ++y) {
    for (int x = first(from.x, to.x); x < last(from.x, to.x); ++x) {
      double& pixel = ink[static_cast<std::size_t>(y) * digit_side + static_cast<std::size_t>(x)];
      const double distance = distance_to_segment({double(x), double(y)}, from, to);
      pixel = std::max(pixel, std::clamp(half_width + 0.5 - distance, 0.0, 1.0));
    }
  }
}

}  // namespace

Digit draw_digit(std::uint64_t seed, std::uint64_t stream, std::uint64_t image) {
  constexpr std::uint64_t draws_per_image = std::uint64_t{1} << 12;
  static_assert(2 * digit_side * digit_side + 64 < draws_per_image);
  RandomStream rng(seed, stream, image * draws_per_image);
  Digit digit;
  digit.label = static_cast<std::uint8_t>(rng.pick(10));
  const auto strokes = digit_strokes(digit.label, rng.pick(3));
  const Hand hand(rng);
  const double half_width = rng.between(0.5, 1.6), darkness = rng.between(0.55, 1.0),
               noise = rng.between(0, 0.12);
  Ink ink{};
  for (const Stroke& stroke : strokes) {
    for (std::size_t i = 0; i + 1 < stroke.size(); ++i)
      draw_line(ink, hand.on_paper(stroke[i]), hand.on_paper(stroke[i + 1]), half_width);
  }
  for (std::size_t i = 0; i < ink.size(); ++i) {
    const double value = darkness * ink[i] + noise * rng.normal();
    digit.pixels[i] = static_cast<std::uint8_t>(std::lround(255 * std::clamp(value, 0.0, 1.0)));
  }
  return digit;
}

}  // namespace muster::data
