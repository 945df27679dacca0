// SPDX-License-Identifier: Apache-2.0
#include "roster/rank_list.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::bootstrap {
namespace {

constexpr std::size_t max_named_hosts = 3;
constexpr std::size_t max_shown_ranges = 12;

}  // namespace

std::string format_ranges(const std::vector<int>& numbers) {
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t first = 0; first < numbers.size(); ++ranges) {
    if (ranges == max_shown_ranges) return text + fmt::format(" and {} more", numbers.size() - first);
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text +=
        last == first ? std::to_string(numbers[first]) : fmt::format("{}-{}", numbers[first], numbers[last]);
    first = last + 1;
  }
  return text;
}

std::string format_ranks(const std::vector<Hello>& roster, const std::vector<int>& ranks) {
  std::vector<std::string> hosts;
  for (int const rank : ranks) {
    const auto& host = roster.at(static_cast<std::size_t>(rank)).host;
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  auto text = fmt::format("rank{} {} (host{} ", ranks.size() == 1 ? "" : "s", format_ranges(ranks),
                          hosts.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < std::min(hosts.size(), max_named_hosts); ++i)
    text += (i == 0 ? "" : ", ") + hosts[i];
  if (hosts.size() > max_named_hosts) text += fmt::format(" and {} more", hosts.size() - max_named_hosts);
  return text + ")";
}

}  // namespace muster::bootstrap
