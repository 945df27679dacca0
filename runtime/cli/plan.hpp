// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// Adds `muster plan`. When it is run it sets exit_code and prints to standard output; it may throw
/// placement::Error.
void add_plan(CLI::App& app);

}  // namespace muster::cli
