// SPDX-License-Identifier: Apache-2.0
#include "toml/read_toml.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace muster {
namespace {

// toml++ recurses as deep as a document is nested, and a plugin must not overflow its host's stack.
constexpr std::size_t most_brackets = 32;
constexpr int most_key_parts = 32;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

/// Checks a document before toml++ 3.3 and 3.4 parse it. Their test for white space has undefined behaviour
/// for most letters from U+00A1 to U+0499 and some others, and they have no limit for dotted keys. TOML
/// allows such letters only in strings and comments. There toml++ makes this test only after a backslash, and
/// where it looks ahead from an unquoted value.
class Precheck {
 public:
  explicit Precheck(std::string_view text) : text_(text) {}

  void run() {
    const auto is_odd = [](unsigned char c) {
      return (c < 0x20 && !is_space(static_cast<char>(c))) || c == 0x7f;
    };
    if (std::any_of(text_.begin(), text_.end(), is_odd))
      throw TomlError(0, "has control characters; not a text file");
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte order mark
    while (at_ < text_.size()) step();
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '"' || c == '\'') {
      if (after_bare_ || std::string_view("\n=[,{.").find(before_) == std::string_view::npos)
        fail(quote_in_word);
      skip_string(c);
      before_ = c;
    } else if (begins_value() && !is_space(c) &&
               std::string_view("[]{},").find(c) == std::string_view::npos) {
      skip_bare_value();
    } else {
      if (!is_ascii(c)) fail(beyond_ascii);
      count(c);
      if (after_bare_ && (c == '[' || c == '{')) fail("a bracket behind a value");
      if (c != ' ' && c != '\t') {
        before_ = c;
        after_bare_ = false;
      }
      ++at_;
    }
  }

  void count(char c) {
    if (c == '[' || c == '{') open_ += c == '[' && begins_value() ? array : c;
    if ((c == ']' || c == '}') && !open_.empty()) open_.pop_back();
    if (open_.size() > most_brackets) fail("brackets in more than 32 levels");
    if (std::string_view("\n=[,{").find(c) != std::string_view::npos) key_parts_ = 1;
    if (c == '.' && ++key_parts_ > most_key_parts) fail("a key of more than 32 parts");
  }

  bool begins_value() const {
    const bool in_array = !open_.empty() && open_.back() == array;
    return after_bare_ || before_ == '=' ||
           (in_array && std::string_view("[,\n").find(before_) != std::string_view::npos);
  }

  // Skips a number, date or boolean; or the time after a date, for which toml++ looks ahead.
  void skip_bare_value() {
    after_bare_ = true;
    while (at_ < text_.size() && !is_space(text_[at_]) &&
           std::string_view(",]}#").find(text_[at_]) == std::string_view::npos) {
      before_ = text_[at_++];
      if (!is_ascii(before_)) fail(beyond_ascii);
      if (before_ == '"' || before_ == '\'') fail(quote_in_word);
      if (std::isalnum(static_cast<unsigned char>(before_)) == 0 &&
          std::string_view("+-_.:").find(before_) == std::string_view::npos)
        fail("a value that needs quotation marks");
    }
  }

  // Stops after the string; after its line or the text if it has no end.
  void skip_string(char quote) {
    const std::string triple(3, quote);
    const bool is_multiline = text_.substr(at_, 3) == triple;
    for (at_ += is_multiline ? 3 : 1; at_ < text_.size() && (is_multiline || text_[at_] != '\n'); ++at_) {
      if (quote == '"' && text_[at_] == '\\') {
        skip_escape();
      } else if (!is_multiline && text_[at_] == quote) {
        ++at_;
        return;
      } else if (is_multiline && text_.substr(at_, 3) == triple) {
        // Up to two quotation marks directly before the last three belong to the string.
        at_ = std::min({text_.find_first_not_of(quote, at_), at_ + 5, text_.size()});
        return;
      }
    }
  }

  // Skips from a backslash to the last character of the escape, which includes white space after the
  // backslash.
  void skip_escape() {
    if (++at_ == text_.size()) return;
    while (is_space(text_[at_]) && at_ + 1 < text_.size() && is_space(text_[at_ + 1])) ++at_;
    const std::size_t next = is_space(text_[at_]) ? at_ + 1 : at_;
    if (next < text_.size() && !is_ascii(text_[next])) fail("a letter beyond ASCII behind a backslash");
  }

  [[noreturn]] void fail(const char* why) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw TomlError(static_cast<std::uint32_t>(line), why);
  }

  static constexpr const char* quote_in_word = "a quotation mark inside a word";
  static constexpr const char* beyond_ascii = "a letter beyond ASCII outside of quotation marks";
  std::string_view text_;
  std::size_t at_ = 0;
  char before_ = '\n';       // the last character that is not a space
  bool after_bare_ = false;  // it belongs to an unquoted value
  static constexpr char array = 'a';
  std::string open_;  // open brackets: '[' of a table's name, '{', or `array`
  int key_parts_ = 1;
};

}  // namespace

toml::table read_toml(const std::string& text) {
  Precheck(text).run();
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw TomlError(error.source().begin.line, std::string(error.description()));
  }
}

}  // namespace muster
