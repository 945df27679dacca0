// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <type_traits>

#include "config/options.hpp"
#include "muster/error.hpp"

namespace muster {

/// @throws Error(ErrorCode::usage) with this text unless it is fine.
inline void require(bool fine, const std::string& text) {
  if (!fine) throw Error(ErrorCode::usage, text + " (see muster-train --help)");
}

/// "--steps 50 (run.toml:3)", "--no-prefetch"; no source in parentheses for the command line.
template <typename Value>
std::string describe_setting(const Options& o, const std::string& name, const Value& value) {
  const auto origin = o.origins.find(name);
  const std::string from = origin == o.origins.end() ? "the default" : origin->second;
  std::string setting;
  if constexpr (std::is_same_v<Value, bool>)
    setting = (value ? "--" : "--no-") + name;
  else
    setting = fmt::format("--{} {}", name, value);
  return setting + (from == "command line" ? "" : " (" + from + ")");
}

/// Refuses a setting with another value than the default that has no effect because of another setting.
template <typename Value>
void refuse_ineffective(const Options& o, const char* name, const Value& value, const Value& unset,
                        bool has_effect, const std::string& problem) {
  require(has_effect || value == unset, describe_setting(o, name, value) + problem);
}

}  // namespace muster
