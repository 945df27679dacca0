// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

struct Point {
  std::int64_t x = 0;  ///< a step, or a number of ranks
  double y = 0;
};

/// Points of one curve, in order of x. Points that are not finite are not drawn.
struct Series {
  enum class Style {
    smoothed,  ///< a pale line of the points, and a strong line of their moving average
    marked,    ///< a line with a mark on each point
    dashed,
    events  ///< a stroke at the horizontal axis for each x; y is ignored
  };
  std::string name;  ///< for the legend
  std::vector<Point> points;
  Style style = Style::smoothed;
  int colour = 1;  ///< 1, 2, or 3 for events
};

struct Chart {
  std::string title, subtitle, x_label, y_label;
  std::vector<Series> series;
  bool from_zero = false;  ///< the vertical axis begins at 0
  double height = 480;     ///< in pixels; all charts are 880 wide
  double scale = 1;        ///< factor of the numbers at the vertical axis: 100 for per cent
};

/// One <svg> element for a page that has svg_style().
std::string draw_chart(const Chart& chart);

/// The chart as a complete SVG file.
std::string draw_chart_file(const Chart& chart);

/// CSS of all pictures; dark by the reader's preference.
std::string svg_style();

}  // namespace muster
