// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "compute/reduced_scalars.hpp"

namespace muster::compute {

/// What a step has come to, the same on every rank but for the last.
struct StepOutcome {
  double loss = 0;
  double gradient_norm = 0;  ///< before clipping
  bool finite = true;        ///< loss and gradients of all ranks are; else nothing was updated
  bool any_stop = false, any_failed = false;
  std::vector<bool> chunk_is_finite;  ///< of this rank's chunks
};

}  // namespace muster::compute
