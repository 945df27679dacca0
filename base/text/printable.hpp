// SPDX-License-Identifier: Apache-2.0
// Makes text safe to print on a terminal. Names, values and files from outside may hold escape sequences,
// line breaks or changes of the writing direction. Pure; libc alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace muster {

/// The length in bytes of the character at `text` if it is complete, valid UTF-8 and visible; else 0. size:
/// bytes left in the text, at least 1.
constexpr std::size_t printable_bytes(const char* text, std::size_t size) noexcept {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > size) return 0;
  std::uint32_t code = first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t shortest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool valid = code >= shortest[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  const bool control = code < 0xa0;  // C1
  const bool directs = (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
                       (code >= 0x2066 && code <= 0x2069);  // line separators, direction marks
  return valid && !control && !directs ? length : 0;
}

/// Replaces every byte that is not part of a printable character by a question mark.
constexpr void make_printable(char* text, std::size_t size) noexcept {
  for (std::size_t at = 0; at < size;) {
    const std::size_t bytes = printable_bytes(text + at, size - at);
    if (bytes == 0) text[at] = '?';
    at += bytes == 0 ? 1 : bytes;
  }
}

inline std::string printable(std::string text) {
  make_printable(text.data(), text.size());
  return text;
}

}  // namespace muster
