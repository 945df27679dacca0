// SPDX-License-Identifier: Apache-2.0
#include "config/settings.hpp"

#include <fmt/format.h>

#include <charconv>

#include "config/declare_options.hpp"
#include "muster/version.hpp"

namespace muster {
namespace {

/// True when TOML reads this text as a number that prints as the same text.
bool round_trips_as_number(const std::string& text) {
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(text.data(), end, whole); read.ptr == end && read.ec == std::errc())
    return std::to_string(whole) == text;
  double number = 0;
  const auto read = std::from_chars(text.data(), end, number);
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return read.ptr == end && read.ec == std::errc() && digit(text.back()) && fmt::format("{}", number) == text;
}

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

std::vector<Setting> list_settings(const Options& options) {
  Options copy = options;
  CLI::App app;
  app.set_help_flag();
  declare_options(app, copy);
  std::vector<Setting> settings;
  for (const CLI::Option* option : app.get_options()) {
    settings.push_back({option->get_single_name(), option->get_group(), option->get_default_str(),
                        option->get_items_expected_max() == 0});
  }
  return settings;
}

std::string settings_as_toml(const Options& options) {
  std::string out = fmt::format("# muster-train {}: settings in force\n", version);
  std::string group;
  for (const Setting& setting : list_settings(options)) {
    if (setting.group != group) out += fmt::format("\n# {}\n", setting.group);
    group = setting.group;
    if (setting.value.empty()) {
      out += fmt::format("# {} is not set\n", setting.name);
      continue;
    }
    const bool bare = setting.is_switch || round_trips_as_number(setting.value);
    out += fmt::format("{} = {}", setting.name, bare ? setting.value : quote(setting.value));
    if (const auto origin = options.origins.find(setting.name); origin != options.origins.end())
      out += fmt::format("  # {}", origin->second);
    out += '\n';
  }
  return out;
}

}  // namespace muster
