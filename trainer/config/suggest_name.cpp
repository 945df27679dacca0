// SPDX-License-Identifier: Apache-2.0
#include "config/suggest_name.hpp"

#include <algorithm>
#include <numeric>

namespace muster {
namespace {

/// Number of letters to insert, delete or replace to turn one text into the other (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggest_name(std::string_view given, const std::vector<std::string>& names) {
  constexpr std::size_t longest = 64;  // no name is longer; the time grows with the square
  std::string nearest;
  std::size_t least = longest;
  if (given.size() > longest) return "";
  for (const std::string& name : names) {
    const bool continues = given.size() > 3 && (name.starts_with(given) || given.starts_with(name));
    const std::size_t distance = edit_distance(given, name);
    const bool near = distance <= std::max<std::size_t>(2, name.size() / 3) && distance < name.size();
    if ((continues || near) && distance < least) nearest = name, least = distance;
  }
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace muster
