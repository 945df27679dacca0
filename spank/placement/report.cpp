// SPDX-License-Identifier: Apache-2.0
#include "placement/report.hpp"

#include <array>

namespace muster::placement {

namespace {

constexpr std::size_t last_column = 6;
constexpr std::array<std::size_t, last_column> widths = {4, 20, 12, 16, 6, 18};

/// Columns are padded, not cut: a long list of cores is worth more than a straight edge.
std::string row(const std::array<std::string, last_column + 1>& cells) {
  std::string line;
  for (std::size_t i = 0; i < last_column; ++i) {
    line += cells[i];
    if (cells[i].size() < widths[i]) line.append(widths[i] - cells[i].size(), ' ');
    line += "  ";
  }
  return line + cells[last_column] + "\n";
}

template <typename List, typename Text>
std::string joined(const List& list, const char* separator, Text text) {
  std::string result;
  for (const auto& item : list) {
    if (!result.empty()) result += separator;
    result += text(item);
  }
  return result.empty() ? "-" : result;
}

}  // namespace

std::string report_header() { return row({"rank", "host", "GPU", "cores", "memory", "NIC", "why"}); }

std::string report_rows(const std::string& host, const Placement& placement, const std::vector<int>& ranks) {
  std::string block;
  for (std::size_t i = 0; i < placement.tasks.size(); ++i) {
    const auto& task = placement.tasks[i];
    const int rank = i < ranks.size() ? ranks[i] : task.local_rank;
    const auto same = [](const std::string& text) { return text; };
    block +=
        row({std::to_string(rank), host.empty() ? "-" : host,
             joined(task.gpus, ",", [](const PlacedGpu& gpu) { return gpu.pci.to_string(); }),
             task.cpus.to_list(), joined(task.memory, ",", [](int domain) { return std::to_string(domain); }),
             joined(task.nics, ",",
                    [](const PlacedNic& nic) { return nic.label + ":" + std::to_string(nic.port); }),
             joined(task.reasons, "; ", same)});
  }
  for (const auto& warning : placement.warnings)
    block += "muster: " + host + (host.empty() ? "" : ": ") + warning + "\n";
  return block;
}

}  // namespace muster::placement
