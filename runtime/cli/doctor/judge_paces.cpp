// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "doctor/node_pace.hpp"

namespace muster::cli::doctor {
namespace {

constexpr std::array all_paces{Pace::compute, Pace::copy, Pace::gpu_copy, Pace::all_reduce, Pace::round_trip};

const char* name_of(Pace pace) {
  switch (pace) {
    case Pace::compute:
      return "computing";
    case Pace::copy:
      return "copying memory";
    case Pace::gpu_copy:
      return "copying to the GPU and back";
    case Pace::all_reduce:
      return "all-reduce on the node";
    case Pace::round_trip:
      return "round trip to rank 0";
  }
  return "?";
}

// One measure over the nodes that have it.
struct Compared {
  Pace pace;
  double least = 0, middle = 0, most = 0;
};

std::vector<Compared> compare(const std::vector<NodePace>& nodes) {
  bool const same_ranks = std::all_of(nodes.begin(), nodes.end(), [&](const NodePace& node) {
    return node.ranks == nodes.front().ranks && node.ranks > 1;
  });
  std::vector<Compared> compared;
  for (Pace const pace : all_paces) {
    if (pace == Pace::all_reduce && !same_ranks) continue;
    std::vector<double> times;
    for (const auto& node : nodes)
      if (node[pace] > 0) times.push_back(node[pace]);
    if (times.size() < 2) continue;
    std::sort(times.begin(), times.end());
    compared.push_back({pace, times.front(), times[(times.size() - 1) / 2], times.back()});
  }
  return compared;
}

// How far beyond the limit, as a factor: above 1 when it stands out.
double excess(double seconds, const Compared& among) {
  auto const [factor, least] = limit_of(among.pace);
  if (seconds - among.middle <= least) return 0;
  return seconds / (factor * among.middle);
}

std::string in_milliseconds(double seconds) { return fmt::format("{:.3g} ms", seconds * 1e3); }

const char* fix_of(Pace pace) {
  switch (pace) {
    case Pace::compute:
      return "see what else runs there, its clock frequencies and the tasks' binding";
    case Pace::copy:
      return "see what else runs there, its memory modules and the NUMA domains that the tasks are bound to";
    case Pace::gpu_copy:
      return "see the GPU's PCIe link (nvidia-smi -q -d PCIE), and whether the task's CPUs are near the GPU";
    case Pace::all_reduce:
      return "see what else runs there and the tasks' binding";
    case Pace::round_trip:
      return "see the way to rank 0's host: link speed, switches, errors (ip -s link, ethtool -S)";
  }
  return "";
}

Row alike(const std::vector<NodePace>& nodes, const std::vector<Compared>& compared) {
  std::string ranges;
  for (const auto& one : compared)
    ranges += fmt::format("{} {} in {:.3g} to {}", ranges.empty() ? ":" : ",", name_of(one.pace),
                          one.least * 1e3, in_milliseconds(one.most));
  return {Verdict::pass, "slowest node", fmt::format("none: {} nodes are alike{}", nodes.size(), ranges), ""};
}

}  // namespace

PaceLimit limit_of(Pace pace) {
  if (pace == Pace::round_trip) return {3, 0.5e-3};
  return {1.5, 0};
}

Row judge_paces(const std::vector<NodePace>& nodes) {
  auto const compared = compare(nodes);
  if (compared.empty()) return {Verdict::skipped, "slowest node", "no two nodes told how long they take", ""};
  const NodePace* slowest = nullptr;
  const Compared* worst = nullptr;
  double most = 1;
  for (const auto& node : nodes) {
    for (const auto& among : compared) {
      double const this_much = excess(node[among.pace], among);
      if (this_much <= most) continue;
      most = this_much;
      slowest = &node;
      worst = &among;
    }
  }
  if (slowest == nullptr) return alike(nodes, compared);
  std::string text;
  for (const auto& among : compared) {
    double const seconds = (*slowest)[among.pace];
    if (excess(seconds, among) <= 1) continue;
    text += fmt::format("{} {} takes {}, on the middle node {}", text.empty() ? ":" : ";",
                        name_of(among.pace), in_milliseconds(seconds), in_milliseconds(among.middle));
  }
  return {Verdict::warn, "slowest node", slowest->host + text, fix_of(worst->pace)};
}

}  // namespace muster::cli::doctor
