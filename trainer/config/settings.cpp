// SPDX-License-Identifier: Apache-2.0
#include "config/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "config/declare_options.hpp"
#include "config/option_validators.hpp"
#include "muster/error.hpp"
#include "muster/version.hpp"
#include "text/printable.hpp"
#include "toml/read_toml.hpp"

namespace muster {
namespace {

constexpr std::streamsize max_file_bytes = 1 << 20;

/// The value as TOML. Numbers are bare when TOML reads them back as the same text.
std::string as_toml(const Setting& setting) {
  double number = 0;
  const bool is_number = parse_number(setting.value, number) && std::isfinite(number) &&
                         fmt::format("{}", number) == setting.value;
  if (setting.is_switch || is_number) return setting.value;
  std::ostringstream quoted;
  quoted << toml::toml_formatter(toml::value<std::string>(setting.value),
                                 toml::format_flags::allow_unicode_strings);
  return quoted.str();
}

std::string read_text(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(max_file_bytes + 1), '\0');
  file.read(text.data(), max_file_bytes + 1);
  if (!file.is_open() || file.bad() || (errno != 0 && file.gcount() == 0)) {
    throw Error(ErrorCode::system,
                fmt::format("cannot read the settings file {}: {}", path, std::strerror(errno)));
  }
  if (file.gcount() > max_file_bytes)
    throw Error(ErrorCode::usage, fmt::format("{} is longer than 1 MiB: not a settings file", path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string value_text(const toml::node& value, const std::string& name, const std::string& where) {
  if (const auto* number = value.as_integer()) return std::to_string(number->get());
  if (const auto* number = value.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* truth = value.as_boolean()) return truth->get() ? "true" : "false";
  const auto* text = value.as_string();
  if (text != nullptr && text->get().find('\0') == std::string::npos) return text->get();
  throw Error(
      ErrorCode::usage,
      fmt::format("{}: {} must be a number, a text in quotes, true or false; settings have no sections",
                  where, printable(name)));
}

/// A table's names and values in the order of their lines; toml++ has them in the order of their names.
std::vector<std::pair<std::string, const toml::node*>> list_by_line(const toml::table& table) {
  std::vector<std::pair<std::string, const toml::node*>> entries;
  for (const auto& [key, value] : table) entries.emplace_back(key.str(), &value);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.second->source().begin.line < b.second->source().begin.line;
  });
  return entries;
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

std::map<std::string, std::string> later_step_settings(const Options& options) {
  // The first five are in TrainingState. The others change no bits, or only the start.
  constexpr std::array others{"seed",
                              "batch",
                              "dtype",
                              "deterministic",
                              "chunk",
                              "autotune",
                              "shard-optimizer",
                              "recompute",
                              "stop-after-skipped",
                              "init-from",
                              "elastic",
                              "join"};
  std::map<std::string, std::string> settings;
  for (const Setting& setting : list_settings(options)) {
    const bool counts = setting.group == "Model" || setting.group == "Training";
    if (counts && std::find(others.begin(), others.end(), setting.name) == others.end())
      settings[setting.name] = setting.value;
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
    out += fmt::format("{} = {}", setting.name, as_toml(setting));
    if (const auto origin = options.origins.find(setting.name); origin != options.origins.end())
      out += fmt::format("  # {}", origin->second);
    out += '\n';
  }
  return out;
}

std::vector<GivenSetting> read_settings_file(const std::string& path) {
  std::vector<GivenSetting> settings;
  try {
    const toml::table table = read_toml(read_text(path));
    for (const auto& [name, value] : list_by_line(table)) {
      const std::string where = fmt::format("{}:{}", path, value->source().begin.line);
      settings.push_back({name, value_text(*value, name, where), where, value->is_boolean()});
    }
  } catch (const TomlError& error) {
    const std::string where = error.line() > 0 ? fmt::format("{}:{}", path, error.line()) : path;
    throw Error(ErrorCode::usage, fmt::format("{}: {}", where, error.what()));
  }
  return settings;
}

}  // namespace muster
