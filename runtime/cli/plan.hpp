// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// Adds `muster plan`. It prints to standard output while the command line is parsed; it may throw
/// placement::Error.
void add_plan(CLI::App& app);

}  // namespace muster::cli
