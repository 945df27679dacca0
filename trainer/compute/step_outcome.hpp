// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compute/reduced_scalars.hpp"

namespace muster::compute {

/// The result of a step. All fields but the last are the same on every rank.
struct StepOutcome {
  double loss = 0;
  double gradient_norm = 0;  ///< before clipping
  bool finite = true;        ///< loss and gradients of all ranks are finite; else nothing was updated
  bool any_stop = false, any_failed = false;
  std::vector<bool> chunk_is_finite;  ///< for each of this rank's chunks
};

}  // namespace muster::compute
