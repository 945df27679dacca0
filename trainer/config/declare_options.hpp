// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "config/options.hpp"

namespace muster {

/// Declares every option that is a setting, bound to `options`, whose values are the defaults. The text of a
/// default parses to the same value.
void declare_options(CLI::App& app, Options& options);

}  // namespace muster
