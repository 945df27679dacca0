// SPDX-License-Identifier: Apache-2.0
#include "placement/report/report_legend.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "placement/report/task_colours.hpp"
#include "text/plural.hpp"

namespace muster::placement {

namespace {

constexpr double line_height = 22;
constexpr double font = 12;
constexpr double column_gap = 22;
constexpr double swatch = 16;
constexpr std::size_t columns = 7;
using Cells = std::array<std::string, columns>;

/// Cuts a list that is too long for a picture and adds an ellipsis.
std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 64;
  return text.size() <= longest ? text : text.substr(0, longest) + "\xe2\x80\xa6";
}

template <typename List, typename Text>
std::string listed(const List& list, Text text) {
  std::string line;
  for (const auto& item : list) {
    if (!line.empty()) line += ", ";
    line += text(item);
  }
  return line.empty() ? "-" : shortened(line);
}

Cells make_cells(const ReportRow& row) {
  const auto same = [](const std::string& text) { return text; };
  const auto or_dash = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  return {"task " + std::to_string(row.local_rank) + " (T" + std::to_string(row.local_rank) + ")",
          listed(row.gpus, same),
          shortened(row.cpus),
          listed(row.memory, [](int domain) { return "NUMA " + std::to_string(domain); }),
          listed(row.nics, same),
          or_dash(row.gpu_cpu),
          or_dash(row.gpu_nic)};
}

}  // namespace

PictureTitle make_title(const Node& node, const Placement& placement) {
  PictureTitle title;
  const std::string source = node.source.substr(node.source.rfind('/') + 1);
  title.line = plural(placement.tasks.size(), "task") + " on " + (node.host.empty() ? source : node.host);
  std::set<int> packages;
  for (const auto& core : node.cores) packages.insert(core.package);
  std::set<std::string> models;
  for (const auto& gpu : node.gpus)
    if (!gpu.model.empty()) models.insert(gpu.model);
  const auto usable = static_cast<std::size_t>(
      std::count_if(node.nics.begin(), node.nics.end(), [](const auto& nic) { return nic.usable; }));
  title.details = plural(packages.size(), "package") + ", " + plural(node.domains.size(), "NUMA domain") +
                  ", " + plural(node.cores.size(), "core") + ", " +
                  plural(static_cast<std::size_t>(node.cpus().size()), "CPU") + ", " +
                  plural(node.gpus.size(), "GPU");
  if (!models.empty()) title.details += " (" + listed(models, [](const auto& model) { return model; }) + ")";
  title.details += ", " + plural(node.nics.size(), "NIC");
  if (usable < node.nics.size()) title.details += " (" + std::to_string(usable) + " usable)";
  if (!node.host.empty()) title.details += " \xc2\xb7 " + source;
  return title;
}

Box draw_legend(Svg& svg, const NodeReport& report, double x, double y) {
  std::vector<Cells> lines = {{"task", "GPU", "CPUs", "memory", "NIC", "GPU-CPU", "GPU-NIC"}};
  for (const auto& row : report.rows) lines.push_back(make_cells(row));
  std::array<double, columns> widths{};
  for (const auto& line : lines)
    for (std::size_t i = 0; i < columns; ++i) widths[i] = std::max(widths[i], text_width(line[i], font));

  Box box{x, y, swatch + 8, 0};
  for (const double width : widths) box.width += width + column_gap;
  double baseline = y + 16;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      const Box sample{x, baseline - 12, swatch, swatch - 1};
      svg.rectangle(sample, "", task_fill(report.rows[i - 1].local_rank));
      svg.rectangle(sample, "core");
    }
    double left = x + swatch + 8;
    for (std::size_t column = 0; column < columns; ++column) {
      svg.text(left, baseline, lines[i][column], i == 0 ? "heading" : "cell");
      left += widths[column] + column_gap;
    }
    baseline += line_height;
  }
  std::vector<std::string> notes;
  for (const auto& nics : report.left_out) notes.push_back("NIC left out: " + nics);
  notes.insert(notes.end(), report.notes.begin(), report.notes.end());
  notes.insert(notes.end(), report.warnings.begin(), report.warnings.end());
  notes.emplace_back(
      "PIX one PCI switch \xc2\xb7 PXB several PCI switches \xc2\xb7 PHB one host bridge \xc2\xb7 NODE one "
      "NUMA "
      "domain \xc2\xb7 SYS between NUMA domains");
  baseline += 4;
  for (const auto& note : notes) {
    const std::string line = note.size() > 160 ? note.substr(0, 160) + "\xe2\x80\xa6" : note;
    svg.text(x, baseline, line, "note");
    box.width = std::max(box.width, text_width(line, font));
    baseline += line_height - 2;
  }
  box.height = baseline - line_height + 2 - y;
  return box;
}

}  // namespace muster::placement
