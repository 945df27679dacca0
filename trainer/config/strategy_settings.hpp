// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/options.hpp"

namespace muster {

/// @throws Error(ErrorCode::usage) for settings that have no effect with --strategy, or contradict it.
void check_strategy_settings(const Options& options);

/// Whether ranks that compute on GPUs have their tensors on the host, where --threads work on them.
bool offloads_tensors(const Options& options);

}  // namespace muster
