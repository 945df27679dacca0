// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// Adds `muster check-build`, which prints what this build was made with and what of it is found while it
/// runs.
void add_check_build(CLI::App& app);

}  // namespace muster::cli
