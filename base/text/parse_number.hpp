// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace muster {

/// The whole text as an integer of this type; nullopt for any other text, and for a number out of range.
/// Pure.
template <typename Integer>
std::optional<Integer> parse_number(std::string_view text, int base = 10) {
  Integer number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace muster
