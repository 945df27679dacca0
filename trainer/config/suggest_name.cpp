// SPDX-License-Identifier: Apache-2.0
#include "config/suggest_name.hpp"

#include <algorithm>
#include <utility>

namespace muster {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t exchanged = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({exchanged, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

namespace {

/// "--learning-rate" to "--lr".
std::string initials(std::string_view name) {
  const std::size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  std::string out(name.substr(0, dashes));
  for (std::size_t i = dashes; i < name.size(); ++i) {
    if (name[i] != '-' && (i == dashes || name[i - 1] == '-')) out += name[i];
  }
  return out;
}

/// The only name that begins with `given` or has `given` as its initials; nothing when there are several.
std::optional<std::string> find_abbreviated_name(std::string_view given,
                                                 const std::vector<std::string>& names) {
  if (given.find_first_not_of('-') == given.npos) return std::nullopt;
  std::optional<std::string> suggestion;
  for (const std::string& name : names) {
    const std::string letters = initials(name);
    const bool by_initials = given == letters && name.find('-', name.find_first_not_of('-')) != name.npos;
    if (!name.starts_with(given) && !by_initials) continue;
    if (suggestion) return std::nullopt;
    suggestion = name;
  }
  return suggestion;
}

std::vector<std::string_view> split_words(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('-'), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

/// The only name that shares the most words with `given`, where all words of the name or its first one are
/// shared: --batch for "--batch-size", --eval-every for "--eval-interval", --steps for "--max-steps".
std::optional<std::string> find_name_by_shared_words(std::string_view given,
                                                     const std::vector<std::string>& names) {
  const auto wanted = split_words(given);
  const auto is_wanted = [&](std::string_view word) {
    return std::find(wanted.begin(), wanted.end(), word) != wanted.end();
  };
  std::optional<std::string> best;
  std::ptrdiff_t most = 0;
  for (const std::string& name : names) {
    const auto words = split_words(name);
    const auto shared = std::count_if(words.begin(), words.end(), is_wanted);
    const bool all = shared == static_cast<std::ptrdiff_t>(words.size());
    if (shared == 0 || shared < most || !(all || is_wanted(words.front()))) continue;
    best = shared == most ? std::nullopt : std::optional(name);
    most = shared;
  }
  return best;
}

}  // namespace

std::optional<std::string> suggest_name(std::string_view given, const std::vector<std::string>& names) {
  constexpr std::size_t longest = 64;  // no name is longer; the time grows with the square
  if (given.size() > longest) return std::nullopt;
  std::optional<std::string> nearest;
  std::size_t least = 0;
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(given, name);
    if (distance > std::max<std::size_t>(2, name.size() / 3) || distance >= name.size()) continue;
    if (!nearest || distance < least) nearest = name, least = distance;
  }
  if (!nearest) nearest = find_abbreviated_name(given, names);
  return nearest ? nearest : find_name_by_shared_words(given, names);
}

}  // namespace muster
