// SPDX-License-Identifier: Apache-2.0
#include "picture_sets/picture_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compute/token.hpp"
#include "muster/error.hpp"
#include "text/parse_number.hpp"
#include "text/plural.hpp"
#include "text/printable.hpp"

namespace muster::picture_sets {
namespace {

constexpr std::string_view blank = " \t";

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(blank); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(blank, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(blank, end);
  }
  return words;
}

class ListParser {
 public:
  ListParser(const std::string& column, const std::filesystem::path& list)
      : column_(column.empty() ? "label" : column), is_named_(!column.empty()), list_(list) {}

  void parse(std::string_view line) {
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto words = words_of(line);
    if (words.empty()) return;
    const bool is_first = count_ == 0;
    if (is_first) choose_columns(words);
    if (is_first && has_header_) return;
    files_.push_back(parse_picture(line, words));
  }
  std::vector<PictureFile> take() {
    if (files_.empty()) refuse("it names no picture");
    return std::move(files_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::usage, printable(fmt::format("{}:{}: {}", list_.string(), line_, why)));
  }

  void choose_columns(const std::vector<std::string_view>& words) {
    const auto path = std::find(words.begin(), words.end(), "path");
    has_header_ = path != words.end();
    count_ = has_header_ ? words.size() : 2;
    if (!has_header_) {
      if (is_named_) refuse(fmt::format("--label-column {}: the first line does not name columns", column_));
      return;
    }
    const auto label = std::find(words.begin(), words.end(), column_);
    if (label == words.end() || label == path) {
      refuse(fmt::format("there is no column {} of labels among {}: name one by --label-column", column_,
                         fmt::join(words, ", ")));
    }
    path_ = static_cast<std::size_t>(path - words.begin());
    label_ = static_cast<std::size_t>(label - words.begin());
  }

  PictureFile parse_picture(std::string_view line, const std::vector<std::string_view>& words) const {
    const bool path_is_last = path_ + 1 == count_;
    const bool fits = words.size() == count_ || (words.size() > count_ && (path_ == 0 || path_is_last));
    if (!fits) {
      refuse(fmt::format("it has {}, not {}{}", plural(static_cast<std::int64_t>(words.size()), "word"),
                         count_, has_header_ ? "" : ", a path and a label"));
    }
    const std::size_t surplus = words.size() - count_;
    // The path's words with what is between them, which may be several blanks.
    const std::string_view first = words[path_], last = words[path_ + surplus];
    const auto path = line.substr(static_cast<std::size_t>(first.data() - line.data()),
                                  static_cast<std::size_t>(last.data() + last.size() - first.data()));
    const std::string_view label = words[label_ > path_ ? label_ + surplus : label_];
    const auto number = parse_number<std::int64_t>(label);
    if (!number || *number < 0 || *number >= compute::most_classes)
      refuse(fmt::format("the label {} is no number from 0 to {}", label, compute::most_classes - 1));
    return {std::string(path), *number, 0, line_};
  }

  std::string column_;
  bool is_named_, has_header_ = false;
  const std::filesystem::path& list_;
  std::size_t line_ = 0, count_ = 0, path_ = 0, label_ = 1;
  std::vector<PictureFile> files_;
};

}  // namespace

std::vector<PictureFile> parse_picture_list(std::string_view text, const std::string& column,
                                            const std::filesystem::path& list) {
  ListParser parser(column, list);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    parser.parse(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.take();
}

}  // namespace muster::picture_sets
