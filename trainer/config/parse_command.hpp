// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace muster {

/// Parses a command line. False when --help or --version was given and its output is printed. `other_words`:
/// words that the user may have meant by an unexpected argument, beside the subcommands of `app`.
/// @throws muster::Error(ErrorCode::usage) in one line.
bool parse_command(CLI::App& app, int argc, const char* const* argv,
                   const std::vector<std::string>& other_words = {});

}  // namespace muster
