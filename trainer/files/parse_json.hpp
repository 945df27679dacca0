// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string_view>

namespace muster {

/// Whether arrays and objects of a JSON text are nested more than `most` deep.
constexpr bool is_nested_deeper(std::string_view text, int most) noexcept {
  bool in_string = false;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > most) return true;
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return false;
}

/// Parses the whole text of a file from outside, as nlohmann::json or nlohmann::ordered_json.
/// @throws std::runtime_error with the reason: no JSON, or nested more than 64 deep. nlohmann-json copies and
/// prints values recursively, and would need more stack than there is.
template <class Json>
Json parse_json(std::string_view text) {
  constexpr int most_depth = 64;
  if (is_nested_deeper(text, most_depth)) throw std::runtime_error("its JSON is nested more than 64 deep");
  Json json = Json::parse(text, nullptr, false);
  // nlohmann-json treats a NUL as the end of its input.
  if (json.is_discarded() || text.find('\0') != text.npos) throw std::runtime_error("it is not valid JSON");
  return json;
}

}  // namespace muster
