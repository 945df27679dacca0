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

/// True when all of the text is one number of this type.
template <typename Number>
bool reads_as(const std::string& text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ptr == end && read.ec == std::errc();
}

/// Digits, and a value within the limits: "12.5", "1k", "nan" and what overflows are none.
template <typename Whole>
CLI::Validator whole_number(Whole low, Whole high) {
  const auto complaint = [low, high](const std::string& text) {
    Whole value = 0;
    if (reads_as(text, value) && value >= low && value <= high) return std::string();
    return fmt::format("'{}' is no whole number from {} to {}", text, low, high);
  };
  return {complaint, fmt::format("INT in [{} - {}]", low, high)};
}

/// A number for which `fits` holds, "from 0 to 1" for instance.
inline CLI::Validator number(const std::string& limits, const std::function<bool(double)>& fits,
                             const std::string& description = "") {
  const auto complaint = [limits, fits](const std::string& text) {
    double value = 0;
    if (reads_as(text, value) && fits(value)) return std::string();
    return fmt::format("'{}' is no number {}", text, limits);
  };
  return {complaint, description};
}

inline CLI::Validator number(double low, double high) {
  return number(
      fmt::format("from {} to {}", low, high),
      [low, high](double value) { return value >= low && value <= high; },
      fmt::format("FLOAT in [{} - {}]", low, high));
}

inline CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto complaint = [names](const std::string& text) {
    if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
    const auto meant = nearest_name(text, names);
    return fmt::format("'{}' is none of {}{}", text, fmt::join(names, ", "),
                       meant ? "; did you mean " + *meant + "?" : "");
  };
  return {complaint, ""};
}

}  // namespace muster
