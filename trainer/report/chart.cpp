// SPDX-License-Identifier: Apache-2.0
#include "report/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "svg/svg.hpp"

namespace muster {
namespace {

constexpr double chart_width = 880, left = 72, right = 28, top = 84, bottom = 56;
constexpr std::size_t max_points = 400;  // about two pixels each

std::vector<Point> finite_points(const std::vector<Point>& points) {
  std::vector<Point> kept;
  std::copy_if(points.begin(), points.end(), std::back_inserter(kept),
               [](const auto& p) { return std::isfinite(p.y); });
  return kept;
}

/// Means of consecutive points, at most `max_points` of them.
std::vector<Point> thin(const std::vector<Point>& points) {
  const std::size_t group = std::max<std::size_t>(1, (points.size() + max_points - 1) / max_points);
  std::vector<Point> out;
  for (std::size_t i = 0; i < points.size(); i += group) {
    const std::size_t end = std::min(points.size(), i + group);
    double sum = 0;
    for (std::size_t j = i; j < end; ++j) sum += points[j].y;
    const std::size_t at =
        end == points.size() ? end - 1 : (i + end - 1) / 2;  // the axis ends at the last point
    out.push_back({points[at].x, sum / static_cast<double>(end - i)});
  }
  return out;
}

/// Weighted mean over a window centred on each point. Weights fall to both sides, so that a single high point
/// makes no step. The window has a twentieth of the points and narrows towards both ends, so that it does not
/// lag.
std::vector<Point> smoothed(const std::vector<Point>& points) {
  const std::size_t reach = points.size() / 40;
  std::vector<Point> out = points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t half = std::min({reach, i, points.size() - 1 - i});
    double sum = 0, weights = 0;
    for (std::size_t j = i - half; j <= i + half; ++j) {
      const auto weight = static_cast<double>(half + 1 - (j < i ? i - j : j - i));
      sum += weight * points[j].y;
      weights += weight;
    }
    out[i].y = sum / weights;
  }
  return out;
}

/// The smallest of 1, 2 and 5 times a power of ten that divides the range into at most `parts` parts.
double tick_size(double range, int parts) {
  const double rough = range / parts;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// A number of an axis with the maximum `largest`; in thousands or millions when the axis needs it.
std::string tick_text(double value, double largest) {
  if (std::abs(value) < 1e-12) return "0";
  if (largest >= 1e7) return fmt::format("{:.6g}M", value / 1e6);
  if (largest >= 1e4) return fmt::format("{:.6g}k", value / 1e3);
  return fmt::format("{:.6g}", value);
}

struct Frame {
  double height = 480, last = 1, low = 0, high = 1;
  double x(double value) const { return left + value / last * (chart_width - left - right); }
  double y(double value) const { return top + (high - value) / (high - low) * (height - top - bottom); }
  double floor() const { return height - bottom; }
};

Frame make_frame(const Chart& chart) {
  Frame frame;
  frame.height = chart.height;
  bool any = false;
  for (const Series& series : chart.series) {
    for (const auto& point : series.points) {
      frame.last = std::max(frame.last, static_cast<double>(point.x));
      if (series.style == Series::Style::events) continue;
      frame.low = any ? std::min(frame.low, point.y) : point.y;
      frame.high = any ? std::max(frame.high, point.y) : point.y;
      any = true;
    }
  }
  if (!any) return frame;
  if (chart.from_zero) frame.low = std::min(frame.low, 0.0);
  const double least = std::max(0.01 * std::max(std::abs(frame.low), std::abs(frame.high)), 1e-9);
  const double room = std::max(0.04 * (frame.high - frame.low), least);
  if (frame.low != 0) frame.low = frame.low > 0 ? std::max(0.0, frame.low - room) : frame.low - room;
  frame.high += room;
  return frame;
}

void draw_horizontal_grid(Svg& svg, const Frame& frame, double scale) {
  const double tick = tick_size((frame.high - frame.low) * scale, frame.height > 400 ? 9 : 5) / scale;
  const double largest = std::max(std::abs(frame.low), std::abs(frame.high)) * scale;
  for (double value = std::ceil(frame.low / tick) * tick; value <= frame.high; value += tick) {
    svg.line(left, frame.y(value), chart_width - right, frame.y(value), "grid");
    svg.text(left - 10, frame.y(value) + 4, tick_text(value * scale, largest), "", "end");
  }
}

void draw_axes(Svg& svg, const Frame& frame, const Chart& chart) {
  draw_horizontal_grid(svg, frame, chart.scale);
  const double step_tick = std::max(1.0, tick_size(frame.last, 8));
  for (double step = 0; step <= frame.last * (1 + 1e-9); step += step_tick) {
    svg.line(frame.x(step), frame.floor(), frame.x(step), frame.floor() + 5, "axis");
    svg.text(frame.x(step), frame.floor() + 20, tick_text(step, frame.last >= 1e5 ? frame.last : 0), "",
             "middle");
  }
  svg.line(left, frame.floor(), chart_width - right, frame.floor(), "axis");
  svg.text((left + chart_width - right) / 2, frame.height - 14, chart.x_label, "", "middle");
  svg.vertical_text(20, (top + frame.floor()) / 2, chart.y_label);
}

void draw_curve(Svg& svg, const Frame& frame, const std::vector<Point>& points, const std::string& style) {
  Svg::Path places;
  for (const auto& point : points)
    places.emplace_back(frame.x(static_cast<double>(point.x)), frame.y(point.y));
  if (!places.empty()) svg.polyline(places, style);
}

void draw_marks(Svg& svg, const Frame& frame, const Series& series) {
  for (const auto& point : series.points)
    svg.circle(frame.x(static_cast<double>(point.x)), frame.y(point.y), 3.5,
               fmt::format("mark{}", series.colour));
}

/// Strokes that would overlap are drawn as one.
void draw_strokes(Svg& svg, const Frame& frame, const Series& series) {
  double last = -1;
  for (const auto& point : series.points) {
    const double x = frame.x(static_cast<double>(point.x));
    if (last >= 0 && x - last < 2) continue;
    last = x;
    svg.line(x, frame.floor() - 14, x, frame.floor(), fmt::format("line{}", series.colour));
  }
}

void draw_series(Svg& svg, const Frame& frame, const Series& series) {
  const std::string colour = fmt::format("line{}", series.colour);
  switch (series.style) {
    case Series::Style::smoothed:
      if (series.points.size() == 1) return draw_marks(svg, frame, series);  // such a line is invisible
      draw_curve(svg, frame, series.points, colour + " pale");
      return draw_curve(svg, frame, smoothed(series.points), colour);
    case Series::Style::dashed:
      return draw_curve(svg, frame, series.points, colour + " dashed");
    case Series::Style::events:
      return draw_strokes(svg, frame, series);
    case Series::Style::marked:
      draw_curve(svg, frame, series.points, colour);
      return draw_marks(svg, frame, series);
  }
}

void draw_legend(Svg& svg, const std::vector<Series>& all) {
  double x = left;
  for (const Series& series : all) {
    if (series.points.empty()) continue;
    const char* dashes = series.style == Series::Style::dashed ? " dashed" : "";
    svg.polyline({{x, 64}, {x + 22, 64}}, fmt::format("line{}{}", series.colour, dashes));
    svg.text(x + 30, 68, series.name);
    x += 60 + 8 * static_cast<double>(series.name.size());
  }
}

Chart with_points_to_draw(Chart chart) {
  for (Series& series : chart.series) {
    series.points = finite_points(series.points);
    if (series.style == Series::Style::smoothed) series.points = thin(series.points);
  }
  return chart;
}

std::string draw(const Chart& wanted, const std::string& style) {
  const Chart chart = with_points_to_draw(wanted);
  const Frame frame = make_frame(chart);
  Svg svg;
  svg.text(left, 28, chart.title, "title");
  svg.text(left, 48, chart.subtitle);
  draw_axes(svg, frame, chart);
  for (const Series& series : chart.series) draw_series(svg, frame, series);
  draw_legend(svg, chart.series);
  return svg.element(chart_width, chart.height, style);
}

}  // namespace

std::string draw_chart(const Chart& chart) { return draw(chart, ""); }

std::string draw_chart_file(const Chart& chart) { return draw(chart, svg_style()); }

std::string svg_style() {
  return "svg text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:#444}"
         "svg .title{font-size:18px;font-weight:600;fill:#222}"
         ".paper{fill:#fff}.grid{stroke:#e6e6e6}.axis{stroke:#888}"
         "polyline,.line3{fill:none;stroke-linejoin:round;stroke-width:2}.pale{stroke-width:1;opacity:.3}"
         ".dashed{stroke-dasharray:7 5}"
         ".line1{stroke:#2f6db3}.line2{stroke:#c8553d}.line3{stroke:#b58a1f}.mark1{fill:#2f6db3}"
         ".mark2{fill:#c8553d}.mark3{fill:#b58a1f}\n"
         "@media (prefers-color-scheme:dark){svg text{fill:#b9bec5}svg .title{fill:#eceff3}"
         ".paper{fill:#171a1f}.grid{stroke:#2b3038}.axis{stroke:#767d88}"
         ".line1{stroke:#6ca6e8}.line2{stroke:#ee8f73}.line3{stroke:#e0b64e}.mark1{fill:#6ca6e8}"
         ".mark2{fill:#ee8f73}.mark3{fill:#e0b64e}}\n";
}

}  // namespace muster
