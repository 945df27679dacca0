// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/job.hpp"
#include "training/collective_errors.hpp"
#include "training/step.hpp"

namespace muster {

/// Describes the ranks and samples whose loss or gradients were not finite: "on rank 1 (n0), samples 120 to
/// 127". The same on every rank. Collective; call it for a result with finite == false.
std::string describe_non_finite(CollectiveErrors& collective_errors, const std::vector<Hello>& roster,
                                const StepResult& result);

}  // namespace muster
