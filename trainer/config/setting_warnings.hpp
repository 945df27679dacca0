// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/options.hpp"

namespace muster {

/// One line for each setting that does less in this run than its name says. What was asked for and can never
/// have an effect is refused by settle_options() instead; these depend on defaults, ranks or data.
std::vector<std::string> setting_notes(const Options& options, int ranks, std::uint64_t samples_per_epoch);

}  // namespace muster
