// SPDX-License-Identifier: Apache-2.0
#include "config/setting_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "muster/error.hpp"
#include "toml/read_toml.hpp"

namespace muster {
namespace {

constexpr std::streamsize max_file_bytes = 1 << 20;

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

GivenSetting make_setting(const std::string& name, const toml::node& value, const std::string& where) {
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    throw Error(ErrorCode::usage, where + ": a name with control characters");
  if (const auto* text = value.as_string()) {
    if (text->get().find('\0') != std::string::npos)
      throw Error(ErrorCode::usage, fmt::format("{}: {} holds a zero byte", where, name));
    return {name, text->get(), where};
  }
  if (const auto* number = value.as_integer()) return {name, std::to_string(number->get()), where};
  if (const auto* number = value.as_floating_point()) return {name, fmt::format("{}", number->get()), where};
  if (const auto* truth = value.as_boolean()) return {name, truth->get() ? "true" : "false", where, true};
  if (value.is_table())
    throw Error(ErrorCode::usage,
                fmt::format("{}: settings have no sections, as in --print-config: remove [{}]", where, name));
  throw Error(ErrorCode::usage,
              fmt::format("{}: {} must be a number, a text in quotes, true or false", where, name));
}

/// Settings in the order of their lines.
std::vector<GivenSetting> list_document_settings(const toml::table& document, const std::string& path) {
  std::vector<std::pair<std::uint32_t, GivenSetting>> found;
  for (const auto& [key, value] : document) {
    const std::uint32_t line = value.source().begin.line;
    found.emplace_back(line, make_setting(std::string(key.str()), value, fmt::format("{}:{}", path, line)));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<GivenSetting> settings;
  for (auto& [line, setting] : found) settings.push_back(std::move(setting));
  return settings;
}

}  // namespace

std::string to_variable_name(const std::string& setting) {
  std::string name = settings_variable_prefix + setting;
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

std::string to_setting_name(const std::string& variable) {
  std::string name = variable.substr(std::strlen(settings_variable_prefix));
  for (char& c : name) c = c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return name;
}

std::vector<GivenSetting> read_settings_file(const std::string& path) {
  try {
    return list_document_settings(read_toml(read_text(path)), path);
  } catch (const TomlError& error) {
    const std::string where = error.line() > 0 ? fmt::format("{}:{}", path, error.line()) : path;
    throw Error(ErrorCode::usage, fmt::format("{}: {}", where, error.what()));
  }
}

std::vector<GivenSetting> read_settings_environment(const char* const* environment) {
  std::vector<GivenSetting> settings;
  for (; *environment != nullptr; ++environment) {
    const std::string variable = *environment;
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || !variable.starts_with(settings_variable_prefix)) continue;
    const std::string name = variable.substr(0, equals);
    settings.push_back({to_setting_name(name), variable.substr(equals + 1), name});
  }
  return settings;
}

}  // namespace muster
