// SPDX-License-Identifier: Apache-2.0
#include "placement/environment/profile.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "placement/topology/error.hpp"
#include "toml/read_toml.hpp"

namespace muster::placement {

namespace {

[[noreturn]] void reject(const std::string& file, const toml::source_region& where, const std::string& what) {
  throw Error(file + ", line " + std::to_string(where.begin.line) + ": " + what);
}

bool is_variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::vector<std::string> parse_patterns(const toml::node& value, const std::string& file,
                                        std::string_view key) {
  std::vector<std::string> patterns;
  if (const auto* one = value.as_string()) patterns.push_back(one->get());
  if (const auto* list = value.as_array())
    for (const auto& item : *list)
      if (const auto* one = item.as_string()) patterns.push_back(one->get());
  const auto* list = value.as_array();
  if (patterns.empty() || (list != nullptr && list->size() != patterns.size()))
    reject(file, value.source(), std::string(key) + " must be a text or a list of texts, such as \"gpu*\"");
  return patterns;
}

Condition parse_condition(std::string_view key, const toml::node& value, const std::string& file) {
  const auto at = std::find(match_keys.begin(), match_keys.end(), key);
  if (at == match_keys.end())
    reject(file, value.source(),
           "[match] has no key '" + std::string(key) +
               "': use cluster, partition, feature, instance, vendor or chassis");
  return {static_cast<MatchKey>(at - match_keys.begin()), parse_patterns(value, file, key)};
}

Setting parse_setting(std::string_view name, const toml::node& value, const std::string& file) {
  const std::string text(name);
  if (!is_variable_name(name)) reject(file, value.source(), "'" + text + "' is not the name of a variable");
  if (name.starts_with("MUSTER_")) reject(file, value.source(), text + " is Muster's own");
  if (const auto* string = value.as_string();
      string != nullptr && string->get().find('\0') == std::string::npos)
    return {text, string->get(), file};
  if (const auto* boolean = value.as_boolean(); boolean != nullptr && !boolean->get())
    return {text, std::nullopt, file};
  reject(file, value.source(), text + " must be a text in quotes, or false to leave the variable alone");
}

Profile to_profile(const toml::table& document, const std::string& file) {
  Profile profile{file, {}, {}};
  for (const auto& [key, value] : document) {
    const auto* table = value.as_table();
    if (table == nullptr || (key != "match" && key != "environment"))
      reject(file, value.source(), std::string(key.str()) + " is not known: use [match] and [environment]");
    for (const auto& [name, item] : *table) {
      if (key == "match")
        profile.conditions.push_back(parse_condition(name.str(), item, file));
      else
        profile.settings.push_back(parse_setting(name.str(), item, file));
    }
  }
  // matches() stops at the first condition that fails, so the keys that need file accesses come last.
  std::sort(profile.conditions.begin(), profile.conditions.end(),
            [](const Condition& a, const Condition& b) { return a.key < b.key; });
  return profile;
}

}  // namespace

Profile parse_profile(const std::string& text, const std::string& file) {
  try {
    return to_profile(read_toml(text), file);
  } catch (const TomlError& error) {
    throw Error(file + (error.line() > 0 ? ", line " + std::to_string(error.line()) : "") + ": " +
                error.what());
  }
}

bool matches(const Profile& profile, const GetMatchValues& get_values) {
  return std::all_of(profile.conditions.begin(), profile.conditions.end(), [&](const Condition& condition) {
    const auto values = get_values(condition.key);
    return std::any_of(values.begin(), values.end(), [&](const std::string& value) {
      return std::any_of(
          condition.patterns.begin(), condition.patterns.end(),
          [&](const std::string& pattern) { return fnmatch(pattern.c_str(), value.c_str(), 0) == 0; });
    });
  });
}

std::vector<Setting> merge(const std::vector<Profile>& profiles) {
  std::vector<Setting> merged;
  for (const auto& profile : profiles)
    for (const auto& setting : profile.settings) {
      const auto same = std::find_if(merged.begin(), merged.end(),
                                     [&](const Setting& other) { return other.name == setting.name; });
      if (same == merged.end())
        merged.push_back(setting);
      else
        *same = setting;
    }
  return merged;
}

}  // namespace muster::placement
