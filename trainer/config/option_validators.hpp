// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <functional>
#include <string>
#include <vector>

#include "config/suggest_name.hpp"

namespace muster {

/// True when the whole text is one number of this type.
template <typename Number>
bool parse_number(const std::string& text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ptr == end && read.ec == std::errc();
}

/// Accepts integers from `low` to `high`. "12.5", "1k", "nan" and values that overflow are refused.
template <typename Integer>
CLI::Validator integer(Integer low, Integer high) {
  const auto validate = [low, high](const std::string& text) {
    Integer value = 0;
    if (parse_number(text, value) && value >= low && value <= high) return std::string();
    return fmt::format("'{}' must be an integer from {} to {}", text, low, high);
  };
  return {validate, fmt::format("INT in [{} - {}]", low, high)};
}

/// Accepts numbers for which `fits` returns true. `limits` describes them in the message, e.g. "from 0 to 1".
inline CLI::Validator number(const std::string& limits, const std::function<bool(double)>& fits,
                             const std::string& description = "") {
  const auto validate = [limits, fits](const std::string& text) {
    double value = 0;
    if (parse_number(text, value) && fits(value)) return std::string();
    return fmt::format("'{}' must be a number {}", text, limits);
  };
  return {validate, description};
}

inline CLI::Validator number(double low, double high) {
  return number(
      fmt::format("from {} to {}", low, high),
      [low, high](double value) { return value >= low && value <= high; },
      fmt::format("FLOAT in [{} - {}]", low, high));
}

inline CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto validate = [names](const std::string& text) {
    if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
    const auto suggestion = suggest_name(text, names);
    return fmt::format("'{}' is none of {}{}", text, fmt::join(names, ", "),
                       suggestion ? "; did you mean " + *suggestion + "?" : "");
  };
  return {validate, ""};
}

}  // namespace muster
