// SPDX-License-Identifier: Apache-2.0
#include "host_list/expand_host_list.hpp"

#include <algorithm>
#include <cstdint>

#include "text/parse_number.hpp"

namespace muster {

namespace {

constexpr std::size_t most_hosts = 65536;
constexpr std::size_t longest_name = 255;  // of a name in the DNS (RFC 1035, section 2.3.4)
using Names = std::vector<std::string>;

/// "07-09" → 07 08 09.
std::optional<Names> expand_range(std::string_view range) {
  const std::size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  const auto first = parse_number<std::uint64_t>(low), last = parse_number<std::uint64_t>(high);
  if (!first || !last || *first > *last || *last - *first >= most_hosts) return std::nullopt;
  Names numbers;
  for (std::uint64_t i = 0; i <= *last - *first; ++i) {
    std::string text = std::to_string(*first + i);
    if (text.size() < low.size()) text.insert(0, low.size() - text.size(), '0');
    numbers.push_back(std::move(text));
  }
  return numbers;
}

/// The text between two brackets: "07-09,12".
std::optional<Names> expand_ranges(std::string_view ranges) {
  Names numbers;
  while (true) {
    const std::size_t comma = ranges.find(',');
    const auto expanded = expand_range(ranges.substr(0, comma));
    if (!expanded || numbers.size() + expanded->size() > most_hosts) return std::nullopt;
    numbers.insert(numbers.end(), expanded->begin(), expanded->end());
    if (comma == std::string_view::npos) return numbers;
    ranges.remove_prefix(comma + 1);
  }
}

/// One entry of the list, with any number of brackets.
std::optional<Names> expand_entry(std::string_view word) {
  Names names = {""};
  while (!word.empty()) {
    const std::size_t open = word.find('[');
    if (word.substr(0, open).find(']') != std::string_view::npos) return std::nullopt;
    const std::string_view text_before_bracket = word.substr(0, open);
    if (names.front().size() + text_before_bracket.size() > longest_name) return std::nullopt;
    for (auto& name : names) name += text_before_bracket;
    if (open == std::string_view::npos) break;
    const std::size_t close = word.find(']', open);
    if (close == std::string_view::npos) return std::nullopt;
    const auto numbers = expand_ranges(word.substr(open + 1, close - open - 1));
    if (!numbers || names.size() * numbers->size() > most_hosts) return std::nullopt;
    Names longer;
    for (const auto& name : names)
      for (const auto& text : *numbers) longer.push_back(name + text);
    names = std::move(longer);
    word.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

std::optional<Names> expand_host_list(std::string_view list) {
  Names hosts;
  while (!list.empty()) {
    std::size_t end = 0;
    for (int depth = 0; end < list.size() && (depth > 0 || list[end] != ','); ++end)
      depth += list[end] == '[' ? 1 : list[end] == ']' ? -1 : 0;
    if (end > 0) {
      const auto expanded = expand_entry(list.substr(0, end));
      if (!expanded || hosts.size() + expanded->size() > most_hosts) return std::nullopt;
      hosts.insert(hosts.end(), expanded->begin(), expanded->end());
    }
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return hosts;
}

}  // namespace muster
