// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/job.hpp"
#include "training/collective_errors.hpp"
#include "training/replica.hpp"

namespace muster {

/// Whose samples made a step's loss or gradients something that is not finite, in a phrase: "on rank 1 (n0),
/// samples 120 to 127". The same on every rank. Collective; for a result with finite == false.
std::string name_not_finite(Agreement& agreement, const std::vector<Hello>& roster, const StepResult& result);

}  // namespace muster
