// SPDX-License-Identifier: Apache-2.0
#include "placement/report/report.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "host_list/fold_host_list.hpp"
#include "text/plural.hpp"
#include "text/printable.hpp"

namespace muster::placement {

namespace {

using Row = std::vector<std::string>;

void make_printable(std::string& text) { text = printable(std::move(text)); }
void make_printable(std::vector<std::string>& list) {
  for (auto& text : list) make_printable(text);
}
/// The bindings list every member, so that none is forgotten.
void make_printable(NodeReport& report) {
  auto& [host, rows, left_out, warnings, notes, shown, shown_reason, plan_milliseconds] = report;
  for (auto* text : {&host, &shown, &shown_reason}) make_printable(*text);
  for (auto* list : {&left_out, &warnings, &notes}) make_printable(*list);
  for (auto& row : rows) {
    auto& [local_rank, rank, gpus, cpus, memory, nics, gpu_cpu, gpu_nic, reasons] = row;
    for (auto* text : {&cpus, &gpu_cpu, &gpu_nic}) make_printable(*text);
    for (auto* list : {&gpus, &nics, &reasons}) make_printable(*list);
  }
}

template <typename List, typename Text>
std::string joined(const List& list, const char* separator, Text text) {
  std::string result;
  for (const auto& item : list) {
    if (!result.empty()) result += separator;
    result += text(item);
  }
  return result;
}

std::string joined(const std::vector<std::string>& list, const char* separator) {
  return joined(list, separator, [](const std::string& text) { return text; });
}

std::string joined(const std::vector<int>& list, const char* separator) {
  return joined(list, separator, [](int number) { return std::to_string(number); });
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

/// Aligns the lines' cells in columns, two spaces apart.
std::string aligned(const std::vector<Row>& lines) {
  std::vector<std::size_t> widths;
  for (const auto& cells : lines) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text;
  for (const auto& cells : lines) {
    for (std::size_t i = 0; i + 1 < cells.size(); ++i)
      text += cells[i] + std::string(widths[i] - cells[i].size() + 2, ' ');
    text += cells.back() + "\n";
  }
  return text;
}

void add_placement_cells(Row& cells, const ReportRow& row) {
  for (const std::string& cell : {joined(row.gpus, ","), row.cpus, joined(row.memory, ","),
                                  joined(row.nics, ","), row.gpu_cpu, row.gpu_nic})
    cells.push_back(or_dash(cell));
}

void add_placement_titles(Row& cells) {
  for (const char* title : {"GPU", "CPUs", "memory", "NIC", "GPU-CPU", "GPU-NIC"}) cells.emplace_back(title);
}

/// Each reason once, with all tasks that have it: first the tasks' first reasons, then their second ones, and
/// so on. `label` is "rank" or "local rank".
std::string format_reasons(const NodeReport& report, const std::string& label) {
  std::size_t most = 0;
  for (const auto& row : report.rows) most = std::max(most, row.reasons.size());
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (std::size_t place = 0; place < most; ++place) {
    for (const auto& row : report.rows) {
      if (place >= row.reasons.size()) continue;
      const auto& reason = row.reasons[place];
      const auto same = std::find_if(groups.begin(), groups.end(),
                                     [&](const auto& group) { return group.first == reason; });
      if (same != groups.end())
        same->second.push_back(row.local_rank);
      else
        groups.push_back({reason, {row.local_rank}});
    }
  }
  std::string text;
  for (const auto& [reason, ranks] : groups)
    text += label + (ranks.size() > 1 ? "s " : " ") + fold_numbers(ranks) + ": " + reason + "\n";
  return text;
}

/// A legend of the distances in the table; empty if it has none.
std::string format_legend(const NodeReport& report) {
  std::string text;
  for (const auto& [term, meaning] :
       {std::pair(Distance::pix, "one PCI switch"), std::pair(Distance::pxb, "several PCI switches"),
        std::pair(Distance::phb, "one PCI host bridge"), std::pair(Distance::node, "one NUMA domain"),
        std::pair(Distance::sys, "between NUMA domains"),
        std::pair(Distance::unknown, "not said by the machine")}) {
    const bool used =
        std::any_of(report.rows.begin(), report.rows.end(), [&, &term = term](const ReportRow& row) {
          return row.gpu_cpu == to_string(term) || row.gpu_nic == to_string(term);
        });
    if (used) text += (text.empty() ? "" : ", ") + std::string(to_string(term)) + " " + meaning;
  }
  return text.empty() ? text : "legend: " + text + "\n";
}

std::string format_left_out(const NodeReport& report) {
  return joined(report.left_out, "", [](const std::string& line) { return "left out: NIC " + line + "\n"; });
}

std::string note_line(const std::string& where, const std::string& note) {
  return "note: " + where + (where.empty() ? "" : ": ") + note + "\n";
}

std::string warning_line(const std::string& where, const std::string& warning) {
  return "muster: " + where + (where.empty() ? "" : ": ") + warning + "\n";
}

/// Nodes that a step's report shows as one block.
struct Block {
  std::vector<const NodeReport*> nodes;
  const NodeReport& first() const { return *nodes.front(); }
};

bool have_same_placement(const NodeReport& a, const NodeReport& b, bool explain) {
  if (a.shown != b.shown) return false;
  return std::equal(a.rows.begin(), a.rows.end(), b.rows.begin(), b.rows.end(),
                    [explain](const ReportRow& one, const ReportRow& other) {
                      return one.local_rank == other.local_rank && one.gpus == other.gpus &&
                             one.cpus == other.cpus && one.memory == other.memory && one.nics == other.nics &&
                             one.gpu_cpu == other.gpu_cpu && one.gpu_nic == other.gpu_nic &&
                             (!explain || one.reasons == other.reasons);
                    });
}

int lowest_rank(const NodeReport& report) {
  int lowest = report.rows.empty() ? 0 : report.rows.front().rank;
  for (const auto& row : report.rows) lowest = std::min(lowest, row.rank);
  return lowest;
}

std::string format_hosts(const Block& block) {
  std::vector<std::string> hosts;
  for (const auto* node : block.nodes) hosts.push_back(node->host);
  return fold_host_list(hosts);
}

/// The ranks of one local rank on all nodes of a block; shortened if there are many.
std::string format_ranks(const Block& block, std::size_t row) {
  constexpr std::size_t shown = 4;
  std::vector<int> ranks;
  for (const auto* node : block.nodes) ranks.push_back(node->rows[row].rank);
  std::sort(ranks.begin(), ranks.end());
  if (ranks.size() <= shown) return joined(ranks, ",");
  return std::to_string(ranks[0]) + "," + std::to_string(ranks[1]) + ",...," + std::to_string(ranks.back());
}

std::string block_text(const Block& block, bool explain) {
  std::vector<int> ranks;
  for (const auto* node : block.nodes)
    for (const auto& row : node->rows) ranks.push_back(row.rank);
  std::string text = format_hosts(block) + ": ";
  if (block.nodes.size() > 1) text += std::to_string(block.nodes.size()) + " nodes alike, ";
  text += (ranks.size() == 1 ? "rank " : "ranks ") + fold_numbers(ranks) + "\n";
  std::vector<Row> lines = {{"local rank", "rank"}};
  add_placement_titles(lines.front());
  const auto& rows = block.first().rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    lines.push_back({std::to_string(rows[i].local_rank), format_ranks(block, i)});
    add_placement_cells(lines.back(), rows[i]);
  }
  text += aligned(lines);
  if (!block.first().shown.empty())
    text += "CUDA shows each task " + block.first().shown +
            (explain ? " (" + block.first().shown_reason + ")" : std::string()) + "\n";
  if (explain) text += format_reasons(block.first(), "local rank") + format_left_out(block.first());
  return text;
}

std::string heading(const std::vector<NodeReport>& reports, int expected) {
  std::size_t tasks = 0;
  double slowest = 0;
  for (const auto& report : reports) {
    tasks += report.rows.size();
    slowest = std::max(slowest, report.plan_milliseconds);
  }
  char planned[40];
  std::snprintf(planned, sizeof planned, "planned in %.1f ms", slowest);
  std::string text = "muster " MUSTER_VERSION ": " + plural(tasks, "task") + " on " +
                     (reports.size() == 1 ? reports.front().host : plural(reports.size(), "node")) + ", " +
                     planned;
  if (expected > static_cast<int>(reports.size()))
    text += "; " + plural(static_cast<std::size_t>(expected) - reports.size(), "node") +
            " of the step did not report here in time";
  return text + "\n";
}

}  // namespace

NodeReport node_report(const Node& node, const Placement& placement, const std::vector<int>& ranks,
                       double plan_milliseconds) {
  NodeReport report;
  report.host = node.host;
  report.warnings = placement.warnings;
  report.notes = placement.notes;
  report.plan_milliseconds = plan_milliseconds;
  for (std::size_t i = 0; i < placement.tasks.size(); ++i) {
    const auto& task = placement.tasks[i];
    ReportRow row;
    row.local_rank = task.local_rank;
    row.rank = i < ranks.size() ? ranks[i] : task.local_rank;
    for (const auto& gpu : task.gpus) row.gpus.push_back(gpu.pci.to_string() + (gpu.mig ? "/MIG" : ""));
    row.cpus = task.cpus.to_short_list();
    row.memory = task.memory;
    for (const auto& nic : task.nics) row.nics.push_back(nic.label + ":" + std::to_string(nic.port));
    // Without a GPU or a NIC there is no distance, rather than an unknown one.
    if (!task.gpus.empty()) row.gpu_cpu = to_string(task.gpu_cpu);
    if (!task.gpus.empty() && !task.nics.empty()) row.gpu_nic = to_string(task.gpu_nic);
    row.reasons = task.reasons;
    report.rows.push_back(std::move(row));
  }
  std::vector<std::pair<std::string, std::string>> left_out;  // reason, NICs
  for (const auto& nic : node.nics) {
    if (nic.usable) continue;
    const auto known = std::find_if(left_out.begin(), left_out.end(),
                                    [&](const auto& entry) { return entry.first == nic.reason; });
    const std::string name = nic.label() + ":" + std::to_string(nic.port);
    if (known == left_out.end())
      left_out.emplace_back(nic.reason, name);
    else
      known->second += ", " + name;
  }
  for (const auto& [reason, nics] : left_out) report.left_out.push_back(nics + ": " + reason);
  return report;
}

std::string report_table(NodeReport report, bool explain) {
  make_printable(report);
  std::vector<Row> lines = {{"rank"}};
  add_placement_titles(lines.front());
  for (const auto& row : report.rows) {
    lines.push_back({std::to_string(row.rank)});
    add_placement_cells(lines.back(), row);
  }
  std::string text = aligned(lines) + format_legend(report) + format_left_out(report);
  for (const auto& note : report.notes) text += note_line("", note);
  if (explain) text += format_reasons(report, "rank");
  for (const auto& warning : report.warnings) text += warning_line(report.host, warning);
  return text;
}

std::string merge_reports(std::vector<NodeReport> reports, int expected, bool explain) {
  for (auto& report : reports) make_printable(report);
  std::stable_sort(reports.begin(), reports.end(),
                   [](const auto& a, const auto& b) { return lowest_rank(a) < lowest_rank(b); });
  std::vector<Block> blocks;
  std::map<std::string, std::vector<std::string>> notes, warnings;  // hosts by text
  for (const auto& report : reports) {
    const auto same = std::find_if(blocks.begin(), blocks.end(), [&](const auto& block) {
      return have_same_placement(block.first(), report, explain);
    });
    if (same != blocks.end())
      same->nodes.push_back(&report);
    else
      blocks.push_back({{&report}});
    for (const auto& note : report.notes) notes[note].push_back(report.host);
    for (const auto& warning : report.warnings) warnings[warning].push_back(report.host);
  }
  std::string text = heading(reports, expected);
  for (const auto& block : blocks) text += block_text(block, explain);
  for (const auto& [note, hosts] : notes) text += note_line(fold_host_list(hosts), note);
  for (const auto& [warning, hosts] : warnings) text += warning_line(fold_host_list(hosts), warning);
  return text;
}

}  // namespace muster::placement
