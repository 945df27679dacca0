// SPDX-License-Identifier: Apache-2.0
// From what Slurm says and what the user wishes to what the placement is asked for. Pure.
#pragma once

#include <vector>

#include "options.hpp"
#include "placement/place/place.hpp"
#include "placement/topology/node.hpp"
#include "slurm/slurm_facts.hpp"

namespace muster::spank {

/// What the step has of the node's GPUs.
struct StepGpus {
  std::vector<placement::PciAddress> whole;
  std::vector<placement::MigInstance> instances;
};

placement::Request request_for(const placement::Node& node, const SlurmFacts& facts, const Wish& wish,
                               const StepGpus& gpus);

}  // namespace muster::spank
