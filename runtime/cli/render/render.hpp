// SPDX-License-Identifier: Apache-2.0
// `muster render`: a script or manifest from a job description.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// Adds `render`; `code` gets the exit code, 1 where --diff finds a difference.
void add_render(CLI::App& app, int& code);

}  // namespace muster::cli
