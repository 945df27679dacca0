// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace muster::log {

/// True under MUSTER_LOG=debug, and while lines are kept.
bool debugging();

/// From here on debug lines are kept for kept(), the last 200 of them, whether they are shown or not.
void keep();
std::vector<std::string> kept();
/// True under MUSTER_LOG=info and MUSTER_LOG=debug.
bool informing();

/// The rank to show in later lines; unknown until the job has told it.
void set_rank(int rank);

/// One line to stderr under MUSTER_LOG=debug, with the rank and the milliseconds since the first line of this
/// process.
void write_debug(const std::string& text);

/// "muster: warning: …" to stderr, whatever MUSTER_LOG says: for what concerns the whole job, on one rank.
void warn(const std::string& text);
template <typename Arg, typename... Args>
void warn(fmt::format_string<Arg, Args...> format, Arg&& arg, Args&&... args) {
  warn(fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
}

/// "muster: …" to stderr, whatever MUSTER_LOG says.
void write(const std::string& text);

template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (informing()) write(fmt::format(format, std::forward<Args>(args)...));
}

/// "muster: …" to stderr: why this process ends.
void say(const std::string& text);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (debugging()) write_debug(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace muster::log
