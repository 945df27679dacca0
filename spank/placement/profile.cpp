// SPDX-License-Identifier: Apache-2.0
#include "placement/profile.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "placement/error.hpp"

// toml++ 3.2 does not foresee every file: where it would end the process, or with NDEBUG go on with what it
// takes for impossible, the file is refused.
#undef NDEBUG
#define TOML_ASSERT(expression) ((expression) ? void() : throw muster::placement::Error("is not TOML"))
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wterminate"  // in its functions that throw nothing: there the process ends as before
#endif
#include <toml++/toml.h>
#pragma GCC diagnostic pop

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

std::vector<std::string> patterns_of(const toml::node& value, const std::string& file, std::string_view key) {
  std::vector<std::string> patterns;
  if (const auto* one = value.as_string()) patterns.push_back(one->get());
  if (const auto* list = value.as_array())
    for (const auto& item : *list)
      if (const auto* one = item.as_string()) patterns.push_back(one->get());
  const auto* list = value.as_array();
  if (patterns.empty() || (list != nullptr && list->size() != patterns.size()))
    reject(file, value.source(), std::string(key) + " wants a text or a list of texts, such as \"gpu*\"");
  return patterns;
}

Condition condition_of(std::string_view key, const toml::node& value, const std::string& file) {
  const auto at = std::find(match_keys.begin(), match_keys.end(), key);
  if (at == match_keys.end())
    reject(file, value.source(),
           "[match] has no key '" + std::string(key) +
               "': use cluster, partition, feature, instance, vendor or chassis");
  return {static_cast<MatchKey>(at - match_keys.begin()), patterns_of(value, file, key)};
}

Setting setting_of(std::string_view name, const toml::node& value, const std::string& file) {
  const std::string text(name);
  if (!is_variable_name(name)) reject(file, value.source(), "'" + text + "' is not the name of a variable");
  if (name.starts_with("MUSTER_")) reject(file, value.source(), text + " is Muster's own");
  if (const auto* string = value.as_string();
      string != nullptr && string->get().find('\0') == std::string::npos)
    return {text, string->get(), file};
  if (const auto* boolean = value.as_boolean(); boolean != nullptr && !boolean->get())
    return {text, std::nullopt, file};
  reject(file, value.source(), text + " wants a text in quotes, or false to leave the variable alone");
}

// How far the comment or string goes that begins at `from`: behind its end, or to the end of the line (of the
// text, where it may have several) that it does not end on. `from` itself when neither begins there.
std::size_t end_of_free_text(std::string_view text, std::size_t from) {
  const char quote = text[from];
  if (quote == '#') return std::min(text.find('\n', from), text.size());
  if (quote != '"' && quote != '\'') return from;
  const std::string three(3, quote);
  const bool lines = text.substr(from, 3) == three;
  std::size_t at = from + (lines ? 3 : 1);
  for (; at < text.size() && (lines || text[at] != '\n'); ++at) {
    if (quote == '"' && text[at] == '\\')
      ++at;
    else if (!lines && text[at] == quote)
      return at + 1;
    else if (lines && text.substr(at, 3) == three)
      // Up to two quotes right before the three belong to the text.
      return std::min({text.find_first_not_of(quote, at), at + 5, text.size()});
  }
  return std::min(at, text.size());
}

// TOML has no such characters, and toml++ 3.2 takes some of them for impossible: it ends the process, or what
// it does is undefined.
void check_letters(std::string_view text, const std::string& file) {
  const auto is_odd = [](unsigned char c) {
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
  };
  if (std::any_of(text.begin(), text.end(), is_odd))
    throw Error(file + ": has control characters; not a text file");
  for (std::size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0; at < text.size();) {
    const std::size_t end = end_of_free_text(text, at);
    if (end == at && static_cast<unsigned char>(text[at]) >= 0x80)
      throw Error(
          file + ", line " +
          std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n')) +
          ": a letter that is not ASCII: such are for texts in quotes and comments");
    at = std::max(end, at + 1);
  }
}

toml::table parse(const std::string& text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    reject(file, error.source(), std::string(error.description()));
  } catch (const Error& error) {
    throw Error(file + ": " + error.what());
  }
}

}  // namespace

Profile parse_profile(const std::string& text, const std::string& file) {
  check_letters(text, file);
  const toml::table document = parse(text, file);
  Profile profile{file, {}, {}};
  for (const auto& [key, value] : document) {
    const auto* table = value.as_table();
    if (table == nullptr || (key != "match" && key != "environment"))
      reject(file, value.source(), std::string(key.str()) + " is not known: use [match] and [environment]");
    for (const auto& [name, item] : *table) {
      if (key == "match")
        profile.conditions.push_back(condition_of(name.str(), item, file));
      else
        profile.settings.push_back(setting_of(name.str(), item, file));
    }
  }
  // What is in memory is needed in the end only; what asks files comes last.
  std::sort(profile.conditions.begin(), profile.conditions.end(),
            [](const Condition& a, const Condition& b) { return a.key < b.key; });
  return profile;
}

bool matches(const Profile& profile, const Identity& identity) {
  return std::all_of(profile.conditions.begin(), profile.conditions.end(), [&](const Condition& condition) {
    const auto words = identity(condition.key);
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return std::any_of(
          condition.patterns.begin(), condition.patterns.end(),
          [&](const std::string& pattern) { return fnmatch(pattern.c_str(), word.c_str(), 0) == 0; });
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
