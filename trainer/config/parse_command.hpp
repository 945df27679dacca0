// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace muster {

/// Parses the command line of a command beside training. False when help was asked for and is printed.
/// @throws muster::Error(ErrorCode::usage) in one line.
bool parse_command(CLI::App& app, int argc, const char* const* argv);

/// What to say of an argument that `app` does not know: an option, with the nearest of its options, or
/// another word, with the nearest of `commands`.
std::string unknown_text(const std::string& argument, const CLI::App& app,
                         const std::vector<std::string>& commands);

/// What to say instead of CLI11's words for an option without a value, which name types.
std::string wants_a_value(const std::string& mismatch);

}  // namespace muster
