// SPDX-License-Identifier: Apache-2.0
#include "host_list/fold_host_list.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace muster {

namespace {

std::string padded(int number, std::size_t width) {
  std::string text = std::to_string(number);
  return text.size() < width ? text.insert(0, width - text.size(), '0') : text;
}

std::string ranges(std::vector<int> numbers, std::size_t width) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += padded(numbers[first], width);
    if (last > first) text.append("-").append(padded(numbers[last], width));
    first = last + 1;
  }
  return text;
}

/// A host name split at the last digits of its first label.
struct NumberedName {
  std::string prefix, digits, suffix;
};

NumberedName split(const std::string& host) {
  constexpr std::size_t most_digits = 9;  // fits an int
  const std::size_t label_end = std::min(host.find('.'), host.size());
  std::size_t end = label_end;
  while (end > 0 && (host[end - 1] < '0' || host[end - 1] > '9')) --end;
  std::size_t start = end;
  while (start > 0 && end - start < most_digits && host[start - 1] >= '0' && host[start - 1] <= '9') --start;
  return {host.substr(0, start), host.substr(start, end - start), host.substr(end)};
}

}  // namespace

std::string fold_numbers(std::vector<int> numbers) { return ranges(std::move(numbers), 0); }

std::string fold_host_list(const std::vector<std::string>& hosts) {
  using Name = std::tuple<std::string, std::string, std::size_t>;  // prefix, suffix, digits
  std::map<Name, std::vector<int>> by_width;
  std::map<Name, bool> is_padded;
  for (const auto& host : hosts) {
    const auto [prefix, digits, suffix] = split(host);
    const Name name{prefix, suffix, digits.size()};
    by_width[name].push_back(digits.empty() ? 0 : std::stoi(digits));
    if (digits.size() > 1 && digits.front() == '0') is_padded[name] = true;
  }
  // n9 and n10 go into one list, n09 and n9 do not.
  std::map<Name, std::vector<int>> groups;
  for (const auto& [name, numbers] : by_width) {
    const auto& [prefix, suffix, digits] = name;
    auto& group = groups[is_padded[name] || digits == 0 ? name : Name{prefix, suffix, 1}];
    group.insert(group.end(), numbers.begin(), numbers.end());
  }
  std::string text;
  for (const auto& [name, numbers] : groups) {
    const auto& [prefix, suffix, width] = name;
    const std::string list = width == 0 ? "" : ranges(numbers, width);
    const bool several = list.find_first_of(",-") != std::string::npos;
    if (!text.empty()) text += ',';
    text.append(prefix).append(several ? "[" : "").append(list).append(several ? "]" : "").append(suffix);
  }
  return text;
}

}  // namespace muster
