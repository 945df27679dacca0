// SPDX-License-Identifier: Apache-2.0
// Makes the placement's request from Slurm's facts and the user's options. Pure.
#pragma once

#include <vector>

#include "options.hpp"
#include "placement/place/place.hpp"
#include "placement/topology/node.hpp"
#include "slurm/slurm_facts.hpp"

namespace muster::spank {

/// The step's share of the node's GPUs.
struct StepGpus {
  std::vector<placement::PciAddress> whole;
  std::vector<placement::MigInstance> instances;
};

placement::Request make_request(const placement::Node& node, const SlurmFacts& facts,
                                const StepOptions& options, const StepGpus& gpus);

}  // namespace muster::spank
