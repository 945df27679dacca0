// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/schedule_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "svg/svg.hpp"

namespace muster::pipeline {
namespace {

constexpr double page_width = 880, left = 76, right = 16, top = 66, row_height = 28, gap = 4;
constexpr std::size_t most_operations = 10000;

const char* style_of(OperationKind kind) {
  if (kind == OperationKind::forward) return "mark1";
  return kind == OperationKind::backward_weight ? "mark3" : "mark2";
}

void draw_operation(Svg& svg, const TimedOperation& timed, double y, double scale) {
  const Box box{left + timed.begin * scale, y, std::max((timed.end - timed.begin) * scale, 1.0),
                row_height - gap};
  const std::string name = to_string(OperationList{timed.operation});
  svg.rectangle(box, style_of(timed.operation.kind), "",
                fmt::format("{}: {:.2f} ms", name, 1e3 * (timed.end - timed.begin)), 2);
  const std::string label =
      fmt::format("{}{}", static_cast<char>(timed.operation.kind), timed.operation.micro_batch);
  if (text_width(label, 11) < box.width)
    svg.text(box.centre(), y + 16, label, "", "middle", "font-size:11px;fill:#fff");
}

}  // namespace

std::string draw_schedule(const std::vector<std::vector<TimedOperation>>& ranks, const std::string& title,
                          const std::string& subtitle) {
  double makespan = 0;
  std::size_t operations = 0;
  for (const auto& rank : ranks) {
    operations += rank.size();
    for (const TimedOperation& timed : rank) makespan = std::max(makespan, timed.end);
  }
  if (operations == 0 || operations > most_operations || makespan <= 0) return "";
  Svg svg;
  svg.text(left, 28, title, "title");
  svg.text(left, 48, subtitle);
  const double scale = (page_width - left - right) / makespan;
  double y = top;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank, y += row_height) {
    svg.text(left - 10, y + 16, fmt::format("rank {}", rank), "", "end");
    for (const TimedOperation& timed : ranks[rank]) draw_operation(svg, timed, y, scale);
  }
  svg.line(left, y, page_width - right, y, "axis");
  svg.text(left, y + 18, "0 ms");
  svg.text(page_width - right, y + 18, fmt::format("{:.1f} ms", 1e3 * makespan), "", "end");
  return svg.element(page_width, y + 30);
}

}  // namespace muster::pipeline
