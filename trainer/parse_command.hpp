// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace muster {

/// Parses the command line of a command beside training. False when help was asked for and is printed.
/// @throws muster::Error(Fault::usage) in one line.
bool parse_command(CLI::App& app, int argc, const char* const* argv);

}  // namespace muster
