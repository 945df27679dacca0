// SPDX-License-Identifier: Apache-2.0
#include "toml/read_toml.hpp"

#include <algorithm>
#include <string_view>

namespace muster {
namespace {

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
void check_letters(std::string_view text) {
  const auto is_odd = [](unsigned char c) {
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
  };
  if (std::any_of(text.begin(), text.end(), is_odd))
    throw NotToml(0, "has control characters; not a text file");
  char before = '\n';  // the last character that is no space
  for (std::size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0; at < text.size();) {
    const std::size_t end = end_of_free_text(text, at);
    const auto refuse = [&](const char* why) {
      const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      throw NotToml(static_cast<std::uint32_t>(line), why);
    };
    if (end == at && static_cast<unsigned char>(text[at]) >= 0x80)
      refuse("a letter that is not ASCII: such are for texts in quotes and comments");
    if (end != at && text[at] != '#' && std::string_view("\n=[,{.").find(before) == std::string_view::npos)
      refuse("a quote in the middle, where no text in quotes begins");
    at = std::max(end, at + 1);
    if (text[at - 1] != ' ' && text[at - 1] != '\t') before = text[at - 1];
  }
}

}  // namespace

toml::table read_toml(const std::string& text) {
  check_letters(text);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw NotToml(error.source().begin.line, std::string(error.description()));
  }
}

}  // namespace muster
