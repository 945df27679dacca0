// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "doctor/node_speed.hpp"

namespace muster::cli::doctor {
namespace {

constexpr std::array all_measures{Measure::compute, Measure::copy, Measure::gpu_copy, Measure::all_reduce,
                                  Measure::round_trip};

const char* to_string(Measure measure) {
  switch (measure) {
    case Measure::compute:
      return "computing";
    case Measure::copy:
      return "copying memory";
    case Measure::gpu_copy:
      return "copying to the GPU and back";
    case Measure::all_reduce:
      return "all-reduce on the node";
    case Measure::round_trip:
      return "round trip to rank 0";
  }
  return "?";
}

// One measure, compared over the nodes that have it.
struct Comparison {
  Measure measure;
  double least = 0, median = 0, most = 0;
};

std::vector<Comparison> compare(const std::vector<NodeMeasures>& nodes) {
  bool const same_ranks = std::all_of(nodes.begin(), nodes.end(), [&](const NodeMeasures& node) {
    return node.ranks == nodes.front().ranks && node.ranks > 1;
  });
  std::vector<Comparison> comparisons;
  for (Measure const measure : all_measures) {
    if (measure == Measure::all_reduce && !same_ranks) continue;
    std::vector<double> times;
    for (const auto& node : nodes)
      if (node[measure] > 0) times.push_back(node[measure]);
    if (times.size() < 2) continue;
    std::sort(times.begin(), times.end());
    comparisons.push_back({measure, times.front(), times[(times.size() - 1) / 2], times.back()});
  }
  return comparisons;
}

// The time divided by the limit; above 1 for a straggler.
double excess(double seconds, const Comparison& comparison) {
  auto const [factor, least] = limit_for(comparison.measure);
  if (seconds - comparison.median <= least) return 0;
  return seconds / (factor * comparison.median);
}

std::string format_milliseconds(double seconds) { return fmt::format("{:.3g} ms", seconds * 1e3); }

const char* suggest_fix(Measure measure) {
  switch (measure) {
    case Measure::compute:
      return "see what else runs there, its clock frequencies and the tasks' binding";
    case Measure::copy:
      return "see what else runs there, its memory modules and the NUMA domains that the tasks are bound to";
    case Measure::gpu_copy:
      return "see the GPU's PCIe link (nvidia-smi -q -d PCIE), and whether the task's CPUs are near the GPU";
    case Measure::all_reduce:
      return "see what else runs there and the tasks' binding";
    case Measure::round_trip:
      return "see the way to rank 0's host: link speed, switches, errors (ip -s link, ethtool -S)";
  }
  return "";
}

Row no_straggler_row(const std::vector<NodeMeasures>& nodes, const std::vector<Comparison>& comparisons) {
  std::string ranges;
  for (const auto& one : comparisons)
    ranges += fmt::format("{} {} in {:.3g} to {}", ranges.empty() ? ":" : ",", to_string(one.measure),
                          one.least * 1e3, format_milliseconds(one.most));
  return {Verdict::pass, "slowest node", fmt::format("none: {} nodes are alike{}", nodes.size(), ranges), ""};
}

}  // namespace

MeasureLimit limit_for(Measure measure) {
  if (measure == Measure::round_trip) return {3, 0.5e-3};
  return {1.5, 0};
}

Row detect_stragglers(const std::vector<NodeMeasures>& nodes) {
  auto const comparisons = compare(nodes);
  if (comparisons.empty()) return {Verdict::skipped, "slowest node", "fewer than two nodes have times", ""};
  const NodeMeasures* slowest = nullptr;
  const Comparison* worst = nullptr;
  double most = 1;
  for (const auto& node : nodes) {
    for (const auto& comparison : comparisons) {
      double const ratio = excess(node[comparison.measure], comparison);
      if (ratio <= most) continue;
      most = ratio;
      slowest = &node;
      worst = &comparison;
    }
  }
  if (slowest == nullptr) return no_straggler_row(nodes, comparisons);
  std::string text;
  for (const auto& comparison : comparisons) {
    double const seconds = (*slowest)[comparison.measure];
    if (excess(seconds, comparison) <= 1) continue;
    text += fmt::format("{} {} takes {}, on the middle node {}", text.empty() ? ":" : ";",
                        to_string(comparison.measure), format_milliseconds(seconds),
                        format_milliseconds(comparison.median));
  }
  return {Verdict::warn, "slowest node", slowest->host + text, suggest_fix(worst->measure)};
}

}  // namespace muster::cli::doctor
