// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/tokenize_text.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <exception>

#include "muster/error.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

constexpr std::size_t part_bytes = 1 << 20;
constexpr std::size_t parts_per_thread = 4;

/// True for bytes that are whole characters and no white space.
bool is_visible_ascii(char c) { return c > ' ' && c < 0x7f; }

void check_utf8(const data::MappedFile& file, std::string_view text) {
  if (const auto invalid = find_invalid_utf8(text)) {
    throw Error(ErrorCode::usage,
                fmt::format("{}: byte {} is not UTF-8: convert the text, for example with iconv",
                            file.path().string(), *invalid));
  }
}

}  // namespace

std::vector<std::string_view> cut_text(const BpeTokenizer& tokenizer, std::string_view text,
                                       std::size_t least) {
  std::vector<std::string_view> parts;
  while (text.size() > least && tokenizer.can_cut_at_lines()) {
    std::size_t cut = text.find('\n', least);
    while (cut != text.npos && cut + 1 < text.size() &&
           !(is_visible_ascii(text[cut - 1]) && is_visible_ascii(text[cut + 1])))
      cut = text.find('\n', cut + 1);
    if (cut == text.npos || cut + 1 >= text.size()) break;
    parts.push_back(text.substr(0, cut + 1));
    text.remove_prefix(cut + 1);
  }
  if (!text.empty()) parts.push_back(text);
  return parts;
}

void tokenize_text(const BpeTokenizer& tokenizer, const data::MappedFile& file,
                   const std::function<void(std::span<const TokenId>)>& part) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  check_utf8(file, text);
  const auto parts = cut_text(tokenizer, text, part_bytes);
  const std::size_t together = parts_per_thread * static_cast<std::size_t>(omp_get_max_threads());
  std::vector<std::vector<TokenId>> tokens(together);
  for (std::size_t first = 0; first < parts.size(); first += together) {
    const std::size_t count = std::min(together, parts.size() - first);
    std::exception_ptr error;
#pragma omp parallel for schedule(dynamic)
    for (std::size_t i = 0; i < count; ++i) {
      try {
        tokens[i] = tokenizer.encode(parts[first + i]);
      } catch (...) {
#pragma omp critical
        error = std::current_exception();
      }
    }
    data::check_mapped_files();
    if (error) std::rethrow_exception(error);
    for (std::size_t i = 0; i < count; ++i) part(tokens[i]);
  }
}

}  // namespace muster::tokenizer
