// SPDX-License-Identifier: Apache-2.0
#include "slurm/node_features.hpp"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>

#include "file/regular_file.hpp"
#include "host_list/expand_host_list.hpp"
#include "text/split.hpp"

namespace muster::spank {

namespace {

using Names = std::vector<std::string>;

bool equals_ignoring_case(const std::string& one, const char* other) {
  return strcasecmp(one.c_str(), other) == 0;
}

/// Splits at blanks; a value in double quotes may contain blanks.
Names split_words(const std::string& line) {
  Names words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '#' && !quoted) break;
    if (c == '"')
      quoted = !quoted;
    else if ((c == ' ' || c == '\t' || c == '\r') && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  std::erase(words, "");
  return words;
}

/// The value of NAME=VALUE; nullopt for another name. Slurm ignores the case of names.
std::optional<std::string> parse_value(const std::string& word, const char* name) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || !equals_ignoring_case(word.substr(0, equals), name)) return std::nullopt;
  return word.substr(equals + 1);
}

/// Calls `use` for every line of a file and, in place of an Include line, of the included file. A line that
/// ends in a backslash is joined with the next. bytes_left: for all files together; a longer file is skipped.
void for_each_line(const std::string& path, int depth, std::size_t& bytes_left,
                   const std::function<void(const Names&)>& use) {
  constexpr int deepest = 8;
  const auto file = read_regular_file(path, bytes_left);
  if (!file) return;
  bytes_left -= file->text.size();
  std::istringstream lines(file->text);
  std::string whole;
  for (std::string line; std::getline(lines, line);) {
    whole += line;
    if (whole.ends_with('\\')) {
      whole.back() = ' ';
      continue;
    }
    const Names words = split_words(whole);
    whole.clear();
    if (words.size() >= 2 && equals_ignoring_case(words[0], "Include") && depth < deepest)
      for_each_line(words[1].starts_with('/') ? words[1] : path.substr(0, path.rfind('/') + 1) + words[1],
                    depth + 1, bytes_left, use);
    else if (!words.empty())
      use(words);
  }
}

Names split_list(const std::string& list) {
  Names words;
  for (const auto word : split(list, ','))
    if (!word.empty()) words.emplace_back(word);
  return words;
}

std::optional<Names> find_features(const Names& line) {
  for (const auto& word : line)
    for (const char* name : {"Features", "Feature"})
      if (const auto value = parse_value(word, name)) return split_list(*value);
  return std::nullopt;
}

}  // namespace

std::vector<std::string> node_features(const std::string& slurm_conf, const std::string& node) {
  Names default_features, found;
  std::size_t bytes_left = 16 * 1024 * 1024;
  std::size_t names_left = 1'000'000;  // a line names up to 65,536 nodes, and a file can include itself
  for_each_line(slurm_conf, 0, bytes_left, [&](const Names& line) {
    const auto names = parse_value(line[0], "NodeName");
    if (!names) return;
    const auto features = find_features(line);
    if (equals_ignoring_case(*names, "DEFAULT")) {
      if (features) default_features = *features;
      return;
    }
    if (names_left == 0) return;
    const auto hosts = expand_host_list(*names);
    if (hosts) names_left -= std::min(names_left, hosts->size());
    if (hosts && std::find(hosts->begin(), hosts->end(), node) != hosts->end())
      found = features.value_or(default_features);
  });
  return found;
}

std::string slurm_conf_path() {
  if (const char* set = std::getenv("SLURM_CONF"); set != nullptr && *set != '\0') return set;
  for (const char* path : {"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"})
    if (access(path, R_OK) == 0) return path;
  return {};
}

}  // namespace muster::spank
