// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace muster::tokenizer {
namespace {

/// The length of the character at `text`, or 0.
std::size_t character_bytes(const unsigned char* text, std::size_t left) {
  const unsigned first = text[0];
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > left) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((text[i] & 0xc0) != 0x80) return 0;
  }
  // Neither overlong, nor a surrogate, nor beyond U+10FFFF.
  if (first == 0xe0 && text[1] < 0xa0) return 0;
  if (first == 0xed && text[1] >= 0xa0) return 0;
  if (first == 0xf0 && text[1] < 0x90) return 0;
  if (first == 0xf4 && text[1] >= 0x90) return 0;
  return length;
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t word = 0;
    if (text.size() - at >= sizeof word) {
      std::memcpy(&word, bytes + at, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const std::size_t length = character_bytes(bytes + at, text.size() - at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

}  // namespace muster::tokenizer
