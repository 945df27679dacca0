// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <functional>
#include <map>
#include <string>

#include "muster/job.hpp"

namespace muster {

/// True when the whole text is one number of this type.
template <typename Number>
bool parse_number(const std::string& text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ptr == end && read.ec == std::errc();
}

/// Accepts integers from `low` to `high`. CLI::Range would read "010" as octal.
template <typename Integer>
CLI::Validator integer(Integer low, Integer high) {
  const auto validate = [low, high](const std::string& text) {
    Integer value = 0;
    if (parse_number(text, value) && value >= low && value <= high) return std::string();
    return fmt::format("'{}' must be an integer from {} to {}", text, low, high);
  };
  return {validate, fmt::format("[{} - {}]", low, high)};
}

/// Accepts numbers for which `fits` returns true. `limits` describes them in the message, e.g. "from 0 to 1".
/// CLI::Range would accept "nan".
inline CLI::Validator number(const std::string& limits, const std::function<bool(double)>& fits) {
  const auto validate = [limits, fits](const std::string& text) {
    double value = 0;
    if (parse_number(text, value) && fits(value)) return std::string();
    return fmt::format("'{}' must be a number {}", text, limits);
  };
  return {validate, ""};
}

inline CLI::Validator number(double low, double high) {
  const auto fits = [low, high](double value) { return value >= low && value <= high; };
  return number(fmt::format("from {} to {}", low, high), fits)
      .description(fmt::format("[{} - {}]", low, high));
}

/// The values of --device.
inline const std::map<std::string, Device>& devices() {
  static const std::map<std::string, Device> names{
      {"auto", Device::automatic}, {"cpu", Device::cpu}, {"cuda", Device::cuda}};
  return names;
}

/// Refuses the next option, which CLI11 takes as the value when the value is missing.
inline CLI::Validator not_an_option() {
  const auto validate = [](const std::string& text) {
    return text.starts_with("--") ? "a value is missing before " + text : "";
  };
  return {validate, ""};
}

}  // namespace muster
