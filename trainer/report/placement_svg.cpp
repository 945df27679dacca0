// SPDX-License-Identifier: Apache-2.0
#include "report/placement_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "machine/threads.hpp"
#include "report/chart.hpp"
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

std::vector<Host> group_by_host(const std::vector<RankInfo>& ranks) {
  std::vector<Host> hosts;
  std::map<std::string, std::size_t> index;
  for (const RankInfo& rank : ranks) {
    const auto [at, fresh] = index.try_emplace(rank.host, hosts.size());
    if (fresh) hosts.push_back({rank.host, {}, 1});
    Host& host = hosts[at->second];
    host.ranks.push_back(&rank);
    host.cpus = std::max(host.cpus, rank.host_cpus);
    for (const int cpu : parse_cpu_list(rank.cpus)) host.cpus = std::max(host.cpus, cpu + 1);
  }
  return hosts;
}

std::string shorten(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 1) + "…";
}

std::string cell(double x, double y, const std::string& text) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}">{}</text>)", x, y, escaped_xml(text));
}

/// One box per CPU; the rank's CPUs are coloured. When there are many, adjacent boxes of one colour are drawn
/// as one.
std::string cpu_strip(const Host& host, const RankInfo& rank, double y, int colour) {
  const double pitch = (cpu_right - cpu_left) / host.cpus;
  const double box = std::min(16.0, pitch > 4 ? pitch - 2 : pitch);
  const double step = std::min(18.0, pitch);
  std::vector<bool> mine(static_cast<std::size_t>(host.cpus) + 1);
  for (const int cpu : parse_cpu_list(rank.cpus)) mine[static_cast<std::size_t>(cpu)] = true;
  std::string out = fmt::format("<g><title>CPUs {}</title>", escaped_xml(rank.cpus));
  const bool apart = pitch > 4;
  for (std::size_t from = 0; from < static_cast<std::size_t>(host.cpus);) {
    std::size_t to = from + 1;
    while (!apart && to < static_cast<std::size_t>(host.cpus) && mine[to] == mine[from]) ++to;
    out += fmt::format(R"(<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="14" rx="1.5"/>)",
                       mine[from] ? fmt::format("rank{}", colour) : std::string("free"),
                       cpu_left + static_cast<double>(from) * step, y - 11,
                       apart ? box : static_cast<double>(to - from) * step);
    from = to;
  }
  return out + "</g>\n";
}

std::string draw_rank(const Host& host, const RankInfo& rank, double y, int colour) {
  std::string out =
      fmt::format(R"(<rect class="rank{}" x="{:.1f}" y="{:.1f}" width="12" height="12" rx="2"/>)", colour,
                  margin + 14, y - 10);
  out += cell(margin + 34, y, fmt::format("rank {}", rank.rank));
  out += cell(margin + 110, y, rank.gpus.empty() ? "no GPU" : "GPU " + shorten(rank.gpus, 24));
  out += cell(margin + 290, y, rank.nics.empty() ? "" : shorten(rank.nics, 18));
  out += cell(margin + 410, y, rank.memory.empty() ? "" : "NUMA " + shorten(rank.memory, 7));
  return out + cpu_strip(host, rank, y, colour);
}

std::string draw_host(const Host& host, double upper, double height) {
  std::string out =
      fmt::format(R"(<rect class="host" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="6"/>)",
                  margin, upper, picture_width - 2 * margin, height);
  const bool placed =
      std::all_of(host.ranks.begin(), host.ranks.end(), [](const auto* r) { return r->placed; });
  out += fmt::format(R"(<text class="name" x="{:.1f}" y="{:.1f}">{}</text>)", margin + 14, upper + 24,
                     escaped_xml(host.name));
  out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}, {}; {}</text>)"
                     "\n",
                     picture_width - margin - 14, upper + 24,
                     plural(static_cast<std::int64_t>(host.ranks.size()), "rank"), plural(host.cpus, "CPU"),
                     placed ? "placed by Muster" : "not placed by Muster");
  double y = upper + head + 10;
  int colour = 0;
  for (const RankInfo* rank : host.ranks) {
    out += draw_rank(host, *rank, y, colour);
    colour = (colour + 1) % colours;
    y += line_height;
  }
  return out;
}

}  // namespace

std::string draw_placement(const std::vector<RankInfo>& ranks) {
  const std::vector<Host> hosts = group_by_host(ranks);
  std::string body;
  double y = margin;
  std::size_t lines = 0, drawn = 0;
  for (; drawn < hosts.size(); ++drawn) {
    lines += hosts[drawn].ranks.size();
    if (drawn > 0 && lines > max_lines) break;
    const double height = head + line_height * static_cast<double>(hosts[drawn].ranks.size());
    body += draw_host(hosts[drawn], y, height);
    y += height + gap;
  }
  if (drawn < hosts.size()) {
    body += cell(margin + 14, y + 12,
                 fmt::format("and {}", plural(static_cast<std::int64_t>(hosts.size() - drawn), "more host")));
    y += 28;
  }
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1:.0f}" width="{0}" height="{1:.0f}">)"
             "\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
             picture_width, y + margin - gap) +
         body + "</svg>\n";
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
