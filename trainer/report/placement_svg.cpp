// SPDX-License-Identifier: Apache-2.0
#include "report/placement_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cpu_set/cpu_set.hpp"
#include "svg/svg.hpp"
#include "text/plural.hpp"

namespace muster {
namespace {

constexpr double picture_width = 880, margin = 16, line_height = 26, head = 44, gap = 14;
constexpr double cpu_left = 520, cpu_right = picture_width - margin - 14;
constexpr std::size_t max_lines = 64;
constexpr int colours = 8;

struct Host {
  std::string name;
  std::vector<const RankInfo*> ranks;
  int cpus = 1;
};

CpuSet cpus_of(const RankInfo& rank) { return CpuSet::parse_list(rank.cpus).value_or(CpuSet()); }

std::vector<Host> group_by_host(const std::vector<RankInfo>& ranks) {
  std::vector<Host> hosts;
  std::map<std::string, std::size_t> index;
  for (const RankInfo& rank : ranks) {
    const auto [at, fresh] = index.try_emplace(rank.host, hosts.size());
    if (fresh) hosts.push_back({rank.host, {}, 1});
    Host& host = hosts[at->second];
    host.ranks.push_back(&rank);
    host.cpus = std::max(host.cpus, rank.host_cpus);
    for (const int cpu : cpus_of(rank).to_vector()) host.cpus = std::max(host.cpus, cpu + 1);
  }
  return hosts;
}

std::string shorten(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 1) + "…";
}

/// One box per CPU; the rank's CPUs are coloured. When there are many, adjacent boxes of one colour are drawn
/// as one.
void draw_cpus(Svg& svg, const Host& host, const RankInfo& rank, double y, const std::string& style) {
  const double pitch = (cpu_right - cpu_left) / host.cpus;
  const double box = std::min(16.0, pitch > 4 ? pitch - 2 : pitch);
  const double step = std::min(18.0, pitch);
  const CpuSet mine = cpus_of(rank);
  svg.begin_group("", "CPUs " + rank.cpus);
  const bool apart = pitch > 4;
  for (int from = 0; from < host.cpus;) {
    int to = from + 1;
    while (!apart && to < host.cpus && mine.contains(to) == mine.contains(from)) ++to;
    svg.rectangle({cpu_left + from * step, y - 11, apart ? box : (to - from) * step, 14},
                  mine.contains(from) ? style : "free", "", "", 1.5);
    from = to;
  }
  svg.end_group();
}

void draw_rank(Svg& svg, const Host& host, const RankInfo& rank, double y, int colour) {
  const std::string style = fmt::format("rank{}", colour);
  svg.rectangle({margin + 14, y - 10, 12, 12}, style, "", "", 2);
  svg.text(margin + 34, y, fmt::format("rank {}", rank.rank));
  svg.text(margin + 110, y, rank.gpus.empty() ? "no GPU" : "GPU " + shorten(rank.gpus, 24));
  svg.text(margin + 290, y, shorten(rank.nics, 18));
  svg.text(margin + 410, y, rank.memory.empty() ? "" : "NUMA " + shorten(rank.memory, 7));
  draw_cpus(svg, host, rank, y, style);
}

void draw_host(Svg& svg, const Host& host, double upper, double height) {
  svg.rectangle({margin, upper, picture_width - 2 * margin, height}, "host", "", "", 6);
  const bool placed =
      std::all_of(host.ranks.begin(), host.ranks.end(), [](const auto* r) { return r->placed; });
  svg.text(margin + 14, upper + 24, host.name, "name");
  svg.text(picture_width - margin - 14, upper + 24,
           fmt::format("{}, {}; {}", plural(static_cast<std::int64_t>(host.ranks.size()), "rank"),
                       plural(host.cpus, "CPU"), placed ? "placed by Muster" : "not placed by Muster"),
           "", "end");
  double y = upper + head + 10;
  int colour = 0;
  for (const RankInfo* rank : host.ranks) {
    draw_rank(svg, host, *rank, y, colour);
    colour = (colour + 1) % colours;
    y += line_height;
  }
}

}  // namespace

std::string draw_placement(const std::vector<RankInfo>& ranks) {
  const std::vector<Host> hosts = group_by_host(ranks);
  Svg svg;
  double y = margin;
  std::size_t lines = 0, drawn = 0;
  for (; drawn < hosts.size(); ++drawn) {
    lines += hosts[drawn].ranks.size();
    if (drawn > 0 && lines > max_lines) break;
    const double height = head + line_height * static_cast<double>(hosts[drawn].ranks.size());
    draw_host(svg, hosts[drawn], y, height);
    y += height + gap;
  }
  if (drawn < hosts.size()) {
    svg.text(margin + 14, y + 12,
             "and " + plural(static_cast<std::int64_t>(hosts.size() - drawn), "more host"));
    y += 28;
  }
  return svg.element(picture_width, y + margin - gap);
}

std::string placement_style() {
  constexpr const char* fills[colours] = {"#2f6db3", "#c8553d", "#3d8f5f", "#8a5bb0",
                                          "#b58a1f", "#2a9099", "#b0487f", "#6b7a3a"};
  std::string out =
      ".host{fill:none;stroke:#b8bdc4}.free{fill:#e3e6ea}svg .name{font-size:15px;font-weight:600}\n";
  for (int i = 0; i < colours; ++i) out += fmt::format(".rank{}{{fill:{}}}", i, fills[i]);
  return out + "\n@media (prefers-color-scheme:dark){.host{stroke:#4a515b}.free{fill:#2b3038}}\n";
}

}  // namespace muster
