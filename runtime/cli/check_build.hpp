// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// Adds `muster check-build`, which prints the libraries that this build was made with and the versions found
/// at run time.
void add_check_build(CLI::App& app);

}  // namespace muster::cli
