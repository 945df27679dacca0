// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/report.hpp"
#include "bench/sizes.hpp"
#include "svg/svg.hpp"
#include "text/plural.hpp"

namespace muster::cli::bench {
namespace {

constexpr double width = 880, height = 480;
constexpr Box frame{84, 92, 760, 316};
constexpr const char* bus_colour = "#2f6db3";
constexpr const char* algorithm_colour = "#c8553d";
constexpr const char* style_sheet =
    "text{font:13px 'DejaVu Sans',Verdana,sans-serif;fill:#444}\n"
    ".title{font-size:18px;font-weight:600;fill:#222}\n"
    ".paper{fill:#fff}.grid{fill:#e6e6e6}.axis{fill:#888}.dot{stroke:none}\n"
    ".edge{fill:none;stroke:none}.link{fill:none;stroke-width:2.5;stroke-linejoin:round}\n";

// Logarithmic axes: powers of two to the right, powers of ten upwards.
struct Scale {
  double least_size = 0, most_size = 1, least_rate = -3, most_rate = 0;
  double x(std::size_t bytes) const {
    return frame.x +
           (std::log2(static_cast<double>(bytes)) - least_size) / (most_size - least_size) * frame.width;
  }
  double y(double rate) const {
    return frame.bottom() - (std::log10(rate) - least_rate) / (most_rate - least_rate) * frame.height;
  }
};

Scale make_scale(const std::vector<Row>& rows) {
  Scale scale;
  scale.least_size = std::log2(static_cast<double>(std::max<std::size_t>(rows.front().bytes, 1)));
  scale.most_size = std::max(scale.least_size + 1, std::log2(static_cast<double>(rows.back().bytes)));
  double low = 1e300;
  double high = 0;
  for (const auto& row : rows) {
    for (double const rate : {row.bus, row.algorithm}) {
      if (rate <= 0) continue;
      low = std::min(low, rate);
      high = std::max(high, rate);
    }
  }
  if (high <= 0) return scale;
  scale.least_rate = std::floor(std::log10(low));
  scale.most_rate = std::max(scale.least_rate + 1, std::ceil(std::log10(high)));
  return scale;
}

void draw_axes(Svg& svg, const Scale& scale) {
  for (double power = scale.least_rate; power <= scale.most_rate; ++power) {
    double const y = scale.y(std::pow(10, power));
    svg.rectangle({frame.x, y, frame.width, 1}, "grid");
    svg.text(frame.x - 10, y + 4, fmt::format("{:g}", std::pow(10, power)), "", "end");
  }
  int const first = static_cast<int>(std::ceil(scale.least_size - 1e-9));
  int const last = static_cast<int>(std::floor(scale.most_size + 1e-9));
  int const step = std::max(1, (last - first + 9) / 10);
  for (int power = first; power <= last; power += step) {
    double const x = scale.x(std::size_t{1} << power);
    svg.rectangle({x, frame.bottom(), 1, 5}, "axis");
    svg.text(x, frame.bottom() + 20, format_size(std::size_t{1} << power), "", "middle");
  }
  svg.rectangle({frame.x, frame.bottom(), frame.width, 1}, "axis");
  svg.text(frame.centre(), frame.bottom() + 44, "size", "", "middle");
  svg.text(frame.x - 60, frame.y - 10, "GB/s", "");
}

void draw_curve(Svg& svg, const Scale& scale, const std::vector<Row>& rows, double Row::*rate,
                const char* colour) {
  Svg::Path points;
  for (const auto& row : rows)
    if (row.*rate > 0) points.emplace_back(scale.x(row.bytes), scale.y(row.*rate));
  if (points.size() > 1) svg.lines(points, colour);
  for (const auto& row : rows) {
    if (row.*rate <= 0) continue;
    svg.rectangle({scale.x(row.bytes) - 3, scale.y(row.*rate) - 3, 6, 6}, "dot", colour,
                  fmt::format("{}: {:.3f} GB/s, {:.2f} us", format_size(row.bytes), row.*rate,
                              row.times.average * 1e6));
  }
}

void draw_legend(Svg& svg, double x, const char* colour, const char* text) {
  svg.rectangle({x, 66, 22, 4}, "dot", colour);
  svg.text(x + 30, 72, text, "");
}

}  // namespace

std::string svg_report(const RunInfo& info, const std::vector<Row>& rows) {
  Svg svg;
  svg.rectangle({0, 0, width, height}, "paper");
  auto const title = fmt::format("{}, {} on {}", to_string(info.plan.operation), plural(info.ranks, "rank"),
                                 plural(info.hosts, "host"));
  svg.text(frame.x, 28, title, "title");
  svg.text(
      frame.x, 50,
      fmt::format("{}{}, {} memory, {}, muster {}", info.backend, info.nccl.empty() ? "" : " " + info.nccl,
                  info.plan.gpu ? "GPU" : "host", muster::name_of(info.plan.type), info.version),
      "");
  draw_legend(svg, frame.x, bus_colour, "bus bandwidth");
  draw_legend(svg, frame.x + 180, algorithm_colour, "algorithm bandwidth");
  if (!rows.empty()) {
    auto const scale = make_scale(rows);
    draw_axes(svg, scale);
    draw_curve(svg, scale, rows, &Row::algorithm, algorithm_colour);
    draw_curve(svg, scale, rows, &Row::bus, bus_colour);
  }
  return svg.document(width, height, title, "", style_sheet);
}

}  // namespace muster::cli::bench
