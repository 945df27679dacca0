// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// Adds `muster doctor`, which checks the job that it is part of and its cluster. `code` gets the exit code:
/// 0, or 1 when a check failed.
void add_doctor(CLI::App& app, int& code);

}  // namespace muster::cli
