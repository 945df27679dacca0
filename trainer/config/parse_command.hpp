// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace muster {

/// Parses the command line of make-data or scaling. False when help was requested and is printed.
/// @throws muster::Error(ErrorCode::usage) in one line.
bool parse_command(CLI::App& app, int argc, const char* const* argv);

/// Error text for an argument that `app` does not know. Suggests the nearest option, or for another word the
/// nearest of `commands`.
std::string describe_unknown_argument(const std::string& argument, const CLI::App& app,
                                      const std::vector<std::string>& commands);

/// Error text for an option without a value, from CLI11's text, which names types.
std::string describe_missing_value(const std::string& mismatch);

}  // namespace muster
