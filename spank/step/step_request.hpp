// SPDX-License-Identifier: Apache-2.0
// Makes the placement's request from Slurm's facts and the user's options. Pure.
#pragma once

#include <vector>

#include "options.hpp"
#include "placement/place/place.hpp"
#include "placement/topology/node.hpp"
#include "slurm/slurm_facts.hpp"

namespace muster::spank {

/// gpus: the step's GPUs and MIG instances on this node.
placement::Request make_request(const placement::Node& node, const SlurmFacts& facts,
                                const StepOptions& options, const std::vector<placement::PlacedGpu>& gpus);

}  // namespace muster::spank
