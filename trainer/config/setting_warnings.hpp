// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/options.hpp"

namespace muster {

/// One line for each setting that has less effect in this run than its name says, depending on defaults,
/// ranks or data. Settings that can never have an effect are refused by finalize_options() instead.
std::vector<std::string> setting_warnings(const Options& options, int ranks, std::uint64_t samples_per_epoch);

}  // namespace muster
