// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "config/option_validators.hpp"
#include "config/options.hpp"

namespace muster {

/// Declares every option that is a setting, bound to `options`, whose values are the defaults. The text of a
/// default parses to the same value.
void declare_options(CLI::App& app, Options& options);

/// A value as text, as the command line takes it; empty: not set.
template <typename T>
std::string format_value(const T& value) {
  return fmt::format("{}", value);
}
template <typename T>
std::string format_value(const std::optional<T>& value) {
  return value ? format_value(*value) : "";
}

/// Adds an option to a group. Help shows its default with all digits, which CLI11's capture_default_str()
/// does not.
template <typename T>
CLI::Option* add_option(CLI::App& app, const char* group, const char* name, T& value,
                        const char* description) {
  return app.add_option(name, value, description)
      ->group(group)
      ->default_function([&value] { return format_value(value); })
      ->capture_default_str();
}

/// Adds a boolean setting: "--name" and "--no-name" on the command line, true or false elsewhere.
inline CLI::Option* add_switch(CLI::App& app, const char* group, const std::string& name, bool& value,
                               const char* description) {
  return app.add_flag("--" + name + ",!--no-" + name, value, description)
      ->group(group)
      ->check(one_of({"true", "false", "on", "off", "yes", "no", "1", "0"}))
      ->default_function([&value] { return std::string(value ? "true" : "false"); })
      ->capture_default_str();
}

}  // namespace muster
