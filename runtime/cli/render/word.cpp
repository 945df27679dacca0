// SPDX-License-Identifier: Apache-2.0
#include "render/word.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/lower_case.hpp"

namespace muster::render {

namespace {

constexpr int deepest = 8;
// Texts that repeat each other grow with the power of their depth.
constexpr int most_replacements = 1000;

bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

void add_text(Word& word, const std::string& text) {
  if (text.empty()) return;
  if (word.empty() || word.back().is_variable) word.push_back({});
  word.back().text += text;
}

class Expansion {
 public:
  Expansion(const Settings& settings, const std::string& origin) : settings_(settings), origin_(origin) {}

  void add(Word& word, const std::string& text, int depth) {
    if (depth > deepest) reject(origin_, "'" + text.substr(0, 80) + "' refers to itself");
    for (std::size_t at = 0; at < text.size();) {
      const auto mark = text.find("${", at);
      if (mark != std::string::npos && mark > at && text[mark - 1] == '$') {
        add_text(word, text.substr(at, mark - 1 - at) + "${");
        at = mark + 2;
        continue;
      }
      add_text(word, text.substr(at, mark - at));
      if (mark == std::string::npos) return;
      const auto end = text.find('}', mark);
      if (end == std::string::npos)
        reject(origin_, "'" + text.substr(mark, 80) + "' has no }; write $${ for ${");
      add_value(word, text.substr(mark + 2, end - mark - 2), depth);
      at = end + 1;
    }
  }

 private:
  void add_value(Word& word, const std::string& name, int depth) {
    if (++replacements_ > most_replacements) reject(origin_, "more than 1000 times ${NAME}: write less");
    if (!is_variable_name(name))
      reject(origin_, "'${" + name.substr(0, 80) + "}' is not the name of a variable; write $${ for ${");
    if (const auto found = settings_.find("script_variables." + name); found != settings_.end()) {
      Word fallback;
      add(fallback, std::get<std::string>(found->second.value), depth + 1);
      word.push_back({name, true, plain_text(fallback, found->second.origin)});
      if (word.back().fallback.find('}') != std::string::npos)
        reject(found->second.origin, "a value of [script_variables] must not have a }");
      return;
    }
    auto found = settings_.find("variables." + name);
    if (found == settings_.end()) found = settings_.find(name);
    const auto* value = found == settings_.end() ? nullptr : &found->second.value;
    if (value != nullptr && std::holds_alternative<std::string>(*value))
      add(word, std::get<std::string>(*value), depth + 1);
    else if (value != nullptr && std::holds_alternative<std::int64_t>(*value))
      add_text(word, std::to_string(std::get<std::int64_t>(*value)));
    else
      reject(origin_, "${" + name + "} has no value: set it below [variables] or with --set variables." +
                          name + "=VALUE; write $${ for ${");
  }

  const Settings& settings_;
  const std::string& origin_;
  int replacements_ = 0;
};

bool is_plain_in_shell(char c) {
  return is_letter(c) || is_digit(c) || std::string_view("@%+=:,./-").find(c) != std::string_view::npos;
}

std::string escaped_in_shell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("\\\"$`").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

/// True where YAML 1.1 and 1.2 read this text, without quotation marks, as this text.
bool is_plain_in_yaml(const std::string& text) {
  if (text.empty()) return false;
  const char first = text.front();
  const bool begins_well = is_letter(first) || first == '/' ||
                           (first == '-' && text.size() > 1 && (is_letter(text[1]) || text[1] == '-'));
  if (!begins_well || text == "---" || text.back() == ':') return false;
  constexpr std::string_view others = "_./:=+-";
  if (!std::all_of(text.begin(), text.end(), [&](char c) {
        return is_letter(c) || is_digit(c) || others.find(c) != std::string_view::npos;
      }))
    return false;
  constexpr std::array reserved{"y", "n", "yes", "no", "true", "false", "on", "off", "null"};
  return std::find(reserved.begin(), reserved.end(), lower_case(text)) == reserved.end();
}

}  // namespace

bool is_variable_name(const std::string& name) {
  return !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

Word expand(const std::string& text, const Settings& settings, const std::string& origin) {
  Word word;
  Expansion(settings, origin).add(word, text, 0);
  return word;
}

std::string plain_text(const Word& word, const std::string& origin) {
  std::string text;
  for (const auto& piece : word) {
    if (piece.is_variable)
      reject(origin, "${" + piece.text +
                         "} is read when the script starts, and this value is needed before: "
                         "move the variable from [script_variables] to [variables]");
    text += piece.text;
  }
  return text;
}

std::string fallback_text(const Word& word, const std::string& origin) {
  std::string text;
  for (const auto& piece : word) {
    if (piece.is_variable && piece.fallback.empty())
      reject(origin, "${" + piece.text +
                         "} has no value, and a manifest reads none when it starts: --set script_variables." +
                         piece.text + "=VALUE");
    text += piece.is_variable ? piece.fallback : piece.text;
  }
  return text;
}

std::string shell_inner(const Word& word) {
  std::string text;
  for (const auto& piece : word) {
    if (!piece.is_variable)
      text += escaped_in_shell(piece.text);
    else if (piece.fallback.empty())
      text += "${" + piece.text + "}";
    else
      text += "${" + piece.text + ":-" + escaped_in_shell(piece.fallback) + "}";
  }
  return text;
}

std::string shell_quote(const Word& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](const Piece& piece) {
    return !piece.is_variable && std::all_of(piece.text.begin(), piece.text.end(), is_plain_in_shell);
  });
  return plain ? shell_inner(word) : "\"" + shell_inner(word) + "\"";
}

std::string shell_quote(const std::string& text) {
  return shell_quote(text.empty() ? Word() : Word{{text, false, ""}});
}

std::string yaml_quote(const std::string& text) {
  return is_plain_in_yaml(text) ? text : nlohmann::json(text).dump();
}

std::string container_quote(const std::string& text) {
  std::string doubled;
  for (const char c : text) doubled += c == '$' ? "$$" : std::string(1, c);
  return yaml_quote(doubled);
}

}  // namespace muster::render
