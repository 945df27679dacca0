// SPDX-License-Identifier: Apache-2.0
#include "plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace muster {
namespace {

constexpr double width = 880, height = 480, left = 72, right = 28, top = 84, bottom = 56;
constexpr std::size_t most_points = 400;  // about two pixels each
constexpr const char* training_color = "#2f6db3";
constexpr const char* validation_color = "#c8553d";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::vector<LossPoint> finite_points(const std::vector<LossPoint>& points) {
  std::vector<LossPoint> kept;
  std::copy_if(points.begin(), points.end(), std::back_inserter(kept),
               [](const auto& p) { return std::isfinite(p.loss); });
  return kept;
}

/// Means of consecutive points, at most `most_points` of them.
std::vector<LossPoint> thinned(const std::vector<LossPoint>& points) {
  const std::size_t group = std::max<std::size_t>(1, (points.size() + most_points - 1) / most_points);
  std::vector<LossPoint> out;
  for (std::size_t i = 0; i < points.size(); i += group) {
    const std::size_t end = std::min(points.size(), i + group);
    double sum = 0;
    for (std::size_t j = i; j < end; ++j) sum += points[j].loss;
    out.push_back({points[(i + end - 1) / 2].step, sum / static_cast<double>(end - i)});
  }
  return out;
}

/// Mean over a window centred on each point, a fortieth of the points wide and narrower towards both ends, so
/// that it does not lag.
std::vector<LossPoint> smoothed(const std::vector<LossPoint>& points) {
  const std::size_t reach = points.size() / 80;
  std::vector<LossPoint> out = points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t half = std::min({reach, i, points.size() - 1 - i});
    double sum = 0;
    for (std::size_t j = i - half; j <= i + half; ++j) sum += points[j].loss;
    out[i].loss = sum / static_cast<double>(2 * half + 1);
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

struct Frame {
  double last_step = 1, low = 0, high = 1;
  double x(double step) const { return left + step / last_step * (width - left - right); }
  double y(double loss) const { return top + (high - loss) / (high - low) * (height - top - bottom); }
};

Frame frame_of(const std::vector<LossPoint>& training, const std::vector<LossPoint>& validation) {
  Frame frame;
  bool any = false;
  for (const auto* points : {&training, &validation}) {
    for (const auto& point : *points) {
      frame.low = any ? std::min(frame.low, point.loss) : point.loss;
      frame.high = any ? std::max(frame.high, point.loss) : point.loss;
      frame.last_step = std::max(frame.last_step, static_cast<double>(point.step));
      any = true;
    }
  }
  const double room = std::max(0.04 * (frame.high - frame.low), 0.01);
  frame.low = std::max(0.0, frame.low - room);
  frame.high += room;
  return frame;
}

std::string axes(const Frame& frame) {
  std::string out;
  const double loss_tick = tick_size(frame.high - frame.low, 9);
  for (double value = std::ceil(frame.low / loss_tick) * loss_tick; value <= frame.high; value += loss_tick) {
    out += fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", left,
                       width - right, frame.y(value), frame.y(value));
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{:.6g}</text>)"
                       "\n",
                       left - 10, frame.y(value) + 4, std::abs(value) < 1e-12 ? 0.0 : value);
  }
  const double step_tick = std::max(1.0, tick_size(frame.last_step, 8));
  for (double step = 0; step <= frame.last_step * (1 + 1e-9); step += step_tick) {
    out += fmt::format(R"(<line class="axis" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)",
                       frame.x(step), height - bottom, height - bottom + 5);
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{:.0f}</text>)"
                       "\n",
                       frame.x(step), height - bottom + 20, step);
  }
  out += fmt::format(R"(<line class="axis" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", left,
                     width - right, height - bottom, height - bottom);
  out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">step</text>)",
                     (left + width - right) / 2, height - 14);
  out += fmt::format(
      R"svg(<text transform="translate(20 {:.1f}) rotate(-90)" text-anchor="middle">loss (nats per byte)</text>)svg"
      "\n",
      (top + height - bottom) / 2);
  return out;
}

std::string curve(const Frame& frame, const std::vector<LossPoint>& points, const std::string& attributes) {
  if (points.empty()) return {};
  std::string out = "<polyline fill=\"none\" stroke-linejoin=\"round\" " + attributes + " points=\"";
  for (const auto& point : points) {
    out += fmt::format("{:.1f},{:.1f} ", frame.x(static_cast<double>(point.step)), frame.y(point.loss));
  }
  return out + "\"/>\n";
}

std::string legend(double x, const char* color, const std::string& text) {
  return fmt::format(R"(<line x1="{:.1f}" x2="{:.1f}" y1="64" y2="64" stroke="{}" stroke-width="3"/>)", x,
                     x + 22, color) +
         fmt::format(R"(<text x="{:.1f}" y="68">{}</text>)"
                     "\n",
                     x + 30, escaped(text));
}

}  // namespace

std::string draw_loss_plot(const LossPlot& plot) {
  const auto training = thinned(finite_points(plot.training));
  const auto validation = finite_points(plot.validation);
  const Frame frame = frame_of(training, validation);
  std::string out =
      fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}">)"
                  "\n",
                  width, height);
  out +=
      "<style>text{font:13px system-ui,'DejaVu "
      "Sans',sans-serif;fill:#444}.grid{stroke:#e6e6e6}.axis{stroke:#888}"
      ".title{font-size:18px;font-weight:600;fill:#222}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  out += fmt::format(
      "<text class=\"title\" x=\"{0}\" y=\"28\">{1}</text>\n<text x=\"{0}\" y=\"48\">{2}</text>\n", left,
      escaped(plot.title), escaped(plot.subtitle));
  out += axes(frame);
  out +=
      curve(frame, training, fmt::format("stroke=\"{}\" stroke-width=\"1\" opacity=\"0.3\"", training_color));
  out += curve(frame, smoothed(training), fmt::format("stroke=\"{}\" stroke-width=\"2\"", training_color));
  out += curve(frame, validation, fmt::format("stroke=\"{}\" stroke-width=\"2\"", validation_color));
  for (const auto& point : validation) {
    out += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.5" fill="{}"/>)"
                       "\n",
                       frame.x(static_cast<double>(point.step)), frame.y(point.loss), validation_color);
  }
  out += legend(left, training_color, "training");
  if (!validation.empty()) {
    out +=
        legend(left + 130, validation_color, fmt::format("validation (last {:.4f})", validation.back().loss));
  }
  return out + "</svg>\n";
}

}  // namespace muster
