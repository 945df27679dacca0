// SPDX-License-Identifier: Apache-2.0
#include "placement/report/task_colours.hpp"

#include <algorithm>
#include <array>

namespace muster::placement {

namespace {

constexpr int colours = 7;
constexpr std::array<const char*, colours> palette = {"#56b4e9", "#e69f00", "#009e73", "#cc79a7",
                                                      "#0072b2", "#f0e442", "#d55e00"};
constexpr int blue = 4;

// On a 10 by 10 tile.
constexpr std::array<const char*, 3> patterns = {
    R"(<path d="M-2 2L2 -2M0 10L10 0M8 12L12 8" class="hatch"/>)",
    R"(<circle cx="5" cy="5" r="1.8" class="dot"/>)",
    R"(<path d="M-2 8L2 12M0 0L10 10M8 -2L12 2M-2 2L2 -2M0 10L10 0M8 12L12 8" class="hatch"/>)"};
constexpr int styles = colours * (static_cast<int>(patterns.size()) + 1);

}  // namespace

std::string task_colour(int task) { return palette[static_cast<std::size_t>(task % colours)]; }

std::string text_colour_on(int task) { return task % colours == blue ? "#ffffff" : "#000000"; }

std::string task_fill(int task) {
  const int style = task % styles;
  return style < colours ? task_colour(task) : "url(#task-" + std::to_string(style) + ")";
}

std::string pattern_definitions(int tasks) {
  std::string text;
  for (int style = colours; style < std::min(tasks, styles); ++style) {
    text += "<pattern id=\"task-" + std::to_string(style) +
            "\" width=\"10\" height=\"10\" patternUnits=\"userSpaceOnUse\"><rect width=\"10\" height=\"10\" "
            "fill=\"" +
            task_colour(style) + "\"/>" + patterns[static_cast<std::size_t>(style / colours - 1)] +
            "</pattern>\n";
  }
  return text;
}

}  // namespace muster::placement
