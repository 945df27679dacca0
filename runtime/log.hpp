// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace muster::log {

/// True under MUSTER_LOG=debug, and while lines are captured.
bool debug_enabled();

/// From here on the last 200 debug lines are captured for captured(), also when they are not printed.
void start_capture();
std::vector<std::string> captured();
/// True under MUSTER_LOG=info and MUSTER_LOG=debug.
bool info_enabled();

/// The rank that later lines show; "?" until it is set.
void set_rank(int rank);

/// Prints one line to stderr under MUSTER_LOG=debug, with the rank and the milliseconds since the first line
/// of this process.
void print_debug(const std::string& text);

/// Prints "muster: warning: …" to stderr, with any MUSTER_LOG. For what concerns the whole job, on one rank.
void warn(const std::string& text);
template <typename Arg, typename... Args>
void warn(fmt::format_string<Arg, Args...> format, Arg&& arg, Args&&... args) {
  warn(fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
}

/// Prints "muster: …" to stderr, with any MUSTER_LOG.
void print(const std::string& text);

template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (info_enabled()) print(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (debug_enabled()) print_debug(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace muster::log
