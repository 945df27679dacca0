// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/options.hpp"
#include "run/prepare_run.hpp"
#include "training/collective_errors.hpp"

namespace muster {

/// Chooses the algorithms of the model's matrix products, on a device that has a choice: those in
/// parts.state.autotune, of the run that is resumed, or else the fastest, which rank 0 times in a rehearsal
/// of the next step. All ranks then use rank 0's. Rank 0 keeps them in parts.state.autotune and in the output
/// folder's autotune.json, and prints how they were chosen. Call when all ranks have their parameters.
/// Collective over `world`.
/// @throws CollectiveAbort when it fails and the error is printed.
void autotune(const Options& options, RunParts& parts, bool resumed, Communicator& world,
              CollectiveErrors& errors);
/// The last part of it alone, after spares have joined: all ranks use rank 0's algorithms.
void share_algorithms(const Options& options, RunParts& parts, Communicator& world, CollectiveErrors& errors);

}  // namespace muster
