// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/compute.hpp"
#include "config/options.hpp"
#include "training/collective_errors.hpp"

namespace muster {

/// Writes matmul_plans.json to the output folder: the algorithms of the matrix products that the ranks
/// have computed since they started, once for ranks that have the same. Nothing when no rank has any.
/// Collective over `world`.
/// @throws CollectiveAbort when rank 0 cannot write it and the error is printed.
void write_matmul_plans(const Options& options, compute::UpdateCompute<float>& compute, Communicator& world,
                        CollectiveErrors& errors);

}  // namespace muster
