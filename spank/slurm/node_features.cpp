// SPDX-License-Identifier: Apache-2.0
#include "slurm/node_features.hpp"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>

#include "placement/topology/regular_file.hpp"
#include "slurm/expand_host_list.hpp"

namespace muster::spank {

namespace {

using Names = std::vector<std::string>;

bool same(const std::string& one, const char* other) { return strcasecmp(one.c_str(), other) == 0; }

/// Blank-separated; a value in double quotes may have blanks.
Names words_of(const std::string& line) {
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

/// The value of NAME=VALUE; nullopt for another name. Slurm's names are the same in upper and lower case.
std::optional<std::string> value_of(const std::string& word, const char* name) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || !same(word.substr(0, equals), name)) return std::nullopt;
  return word.substr(equals + 1);
}

/// Every line of a file with the lines that go on after a backslash joined, includes in their place.
/// bytes_left: of all files together; a file that is longer is passed over.
void for_each_line(const std::string& path, int depth, std::size_t& bytes_left,
                   const std::function<void(const Names&)>& use) {
  constexpr int deepest = 8;
  const auto file = placement::read_regular_file(path, bytes_left);
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
    const Names words = words_of(whole);
    whole.clear();
    if (words.size() >= 2 && same(words[0], "Include") && depth < deepest)
      for_each_line(words[1].starts_with('/') ? words[1] : path.substr(0, path.rfind('/') + 1) + words[1],
                    depth + 1, bytes_left, use);
    else if (!words.empty())
      use(words);
  }
}

Names split_list(const std::string& list) {
  Names words;
  std::istringstream parts(list);
  for (std::string word; std::getline(parts, word, ',');)
    if (!word.empty()) words.push_back(word);
  return words;
}

std::optional<Names> features_in(const Names& line) {
  for (const auto& word : line)
    for (const char* name : {"Features", "Feature"})
      if (const auto value = value_of(word, name)) return split_list(*value);
  return std::nullopt;
}

}  // namespace

std::vector<std::string> node_features(const std::string& slurm_conf, const std::string& node) {
  Names by_default, found;
  std::size_t bytes_left = 16 * 1024 * 1024;
  for_each_line(slurm_conf, 0, bytes_left, [&](const Names& line) {
    const auto names = value_of(line[0], "NodeName");
    if (!names) return;
    const auto features = features_in(line);
    if (same(*names, "DEFAULT")) {
      if (features) by_default = *features;
      return;
    }
    const auto hosts = expand_host_list(*names);
    if (hosts && std::find(hosts->begin(), hosts->end(), node) != hosts->end())
      found = features.value_or(by_default);
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
