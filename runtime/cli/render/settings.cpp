// SPDX-License-Identifier: Apache-2.0
#include "render/settings.hpp"

#include <optional>

#include "hash/fnv1a.hpp"
#include "render/keys.hpp"
#include "text/printable.hpp"
#include "toml/read_toml.hpp"

namespace muster::render {

namespace {

constexpr std::size_t longest_text = 65536;

std::string origin_of(const toml::node& node, const std::string& file) {
  return file + ", line " + std::to_string(node.source().begin.line);
}

std::string checked_text(const toml::value<std::string>& text, const std::string& key,
                         const std::string& origin) {
  if (printable(text.get()) != text.get())
    reject(origin, key + " has a line break or another character that cannot be printed: write it without");
  if (text.get().size() > longest_text) reject(origin, key + " is longer than 65536 bytes");
  return text.get();
}

std::optional<std::vector<std::string>> to_texts(const toml::node& node, const std::string& key,
                                                 const std::string& origin) {
  const auto* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::vector<std::string> texts;
  for (const auto& item : *array) {
    const auto* text = item.as_string();
    if (text == nullptr) return std::nullopt;
    texts.push_back(checked_text(*text, key, origin));
  }
  return texts;
}

std::optional<Value> to_value(const toml::node& node, const Key& key, const std::string& origin) {
  const std::string name(key.name);
  switch (key.kind) {
    case Kind::count: {
      const auto* number = node.as_integer();
      if (number == nullptr || number->get() < key.least || number->get() > key.most) return std::nullopt;
      return number->get();
    }
    case Kind::flag:
      if (const auto* flag = node.as_boolean()) return flag->get();
      return std::nullopt;
    case Kind::text:
      if (const auto* text = node.as_string()) return checked_text(*text, name, origin);
      return std::nullopt;
    case Kind::lines:
      if (const auto* text = node.as_string()) return std::vector{checked_text(*text, name, origin)};
      [[fallthrough]];
    case Kind::texts:
      if (auto texts = to_texts(node, name, origin)) return *texts;
  }
  return std::nullopt;
}

[[noreturn]] void reject_key(const std::string& origin, const std::string& name) {
  const auto dot = name.find('.');
  const auto table = dot == std::string::npos ? std::string() : name.substr(0, dot);
  if (!table.empty() && !is_table(table))
    reject(origin, "there is no table '" + table + "': known are " + known_keys(""));
  reject(origin, "there is no key '" + name + "': known are " + known_keys(table));
}

Setting to_setting(const toml::node& node, const std::string& name, const std::string& origin) {
  const auto key = find_key(name);
  if (!key) reject_key(origin, name);
  auto value = to_value(node, *key, origin);
  if (!value) reject(origin, name + " must be " + expected(*key));
  return {std::move(*value), origin};
}

}  // namespace

void reject(const std::string& origin, const std::string& problem) {
  throw DescriptionError(printable(origin + ": " + problem));
}

Settings parse_settings(const std::string& text, const std::string& file) {
  Settings settings;
  try {
    for (const auto& [key, node] : read_toml(text)) {
      const std::string name(key.str());
      const auto* table = node.as_table();
      if (is_table(name) != (table != nullptr))
        reject(origin_of(node, file), is_table(name)
                                          ? name + " must be a table: [" + name + "]"
                                          : "there is no table '" + name + "': known are " + known_keys(""));
      if (table == nullptr) {
        settings[name] = to_setting(node, name, origin_of(node, file));
        continue;
      }
      for (const auto& [inner, item] : *table) {
        const auto whole = name + "." + std::string(inner.str());
        settings[whole] = to_setting(item, whole, origin_of(item, file));
      }
    }
  } catch (const TomlError& error) {
    throw DescriptionError(file + (error.line() > 0 ? ", line " + std::to_string(error.line()) : "") + ": " +
                           error.what());
  }
  return settings;
}

Settings parse_assignment(const std::string& assignment) {
  const std::string origin = "--set " + assignment;
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    reject(origin, "write it as key=value, such as --set nodes=4 or --set slurm.partition=gpu");
  const auto name = assignment.substr(0, equals), value = assignment.substr(equals + 1);
  const auto key = find_key(name);
  if (!key) reject_key(origin, name);
  const bool plain = key->kind == Kind::text || (key->kind == Kind::lines && !value.starts_with('['));
  if (plain) return {{name, to_setting(toml::value<std::string>(value), name, origin)}};
  try {
    const auto table = read_toml("value = " + value);
    const auto* node = table.get("value");
    if (node == nullptr || table.size() != 1) reject(origin, name + " must be " + expected(*key));
    return {{name, to_setting(*node, name, origin)}};
  } catch (const TomlError&) {
    reject(origin, name + " must be " + expected(*key));
  }
}

void overlay(Settings& settings, const Settings& upper) {
  for (const auto& [key, setting] : upper) settings[key] = setting;
}

std::string content_hash(const Settings& settings) {
  // Each text with its length, so that no two lists of texts look alike.
  std::string bytes;
  const auto add = [&bytes](const std::string& text) { bytes += std::to_string(text.size()) + ":" + text; };
  for (const auto& [key, setting] : settings) {
    add(key);
    bytes += std::to_string(setting.value.index());
    if (const auto* text = std::get_if<std::string>(&setting.value)) add(*text);
    if (const auto* count = std::get_if<std::int64_t>(&setting.value)) add(std::to_string(*count));
    if (const auto* flag = std::get_if<bool>(&setting.value)) add(*flag ? "true" : "false");
    if (const auto* texts = std::get_if<std::vector<std::string>>(&setting.value)) {
      add(std::to_string(texts->size()));
      for (const auto& text : *texts) add(text);
    }
  }
  return hexadecimal(fnv1a(bytes));
}

}  // namespace muster::render
