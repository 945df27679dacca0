// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

/// Adds `muster bench`, which measures a collective over the ranks of a job. `code` gets the exit code: 0, or
/// 1 when data was wrong.
void add_bench(CLI::App& app, int& code);

}  // namespace muster::cli
