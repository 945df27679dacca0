// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/options.hpp"
#include "muster/muster.hpp"
#include "run/active_ranks.hpp"
#include "run/prepare_run.hpp"

namespace muster {

/// Prints model, ranks, speed, memory, data, and notes on the settings. parts.facts.first_step is set by
/// then.
void print_run_info(const Options& options, const Job& job, const ActiveRanks& ranks, const RunParts& parts);

}  // namespace muster
