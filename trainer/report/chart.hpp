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

/// Points of one kind, in order of x. Those that are not finite are left out.
struct Series {
  enum class Style {
    smoothed,  ///< a pale line, and a strong one of means over a window
    marked,    ///< a line with a mark on each point
    dashed,
    events  ///< a stroke at the horizontal axis for each x; y has no meaning
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
  double scale = 1;        ///< of the numbers at the vertical axis: 100 for per cent
};

/// One <svg> element for a page that has svg_style().
std::string draw_chart(const Chart& chart);

/// The same as a file of its own.
std::string draw_chart_file(const Chart& chart);

/// The look of our pictures, dark where the reader wants it so.
std::string svg_style();

/// As text in XML and HTML.
std::string escaped_xml(const std::string& text);

}  // namespace muster
