// SPDX-License-Identifier: Apache-2.0
// `muster exec`: places one process where there is no SPANK, and becomes its command.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace muster::cli {

/// Takes the words after `--` off the command line of `muster exec`, since CLI11 would change words such as
/// "[a,b]". nullopt: there is no `--`.
std::optional<std::vector<std::string>> take_command(int& argc, char** argv);

/// Adds `exec`; `code` gets the exit code when the command cannot be started. The command replaces this
/// process.
void add_exec(CLI::App& app, int& code, std::optional<std::vector<std::string>> command);

}  // namespace muster::cli
