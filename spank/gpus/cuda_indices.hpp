// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gpus/mig.hpp"
#include "placement/topology/node.hpp"

namespace muster::spank {

/// The numbers of the device files of the node's GPUs. CUDA counts those of them that a process can open, in
/// PCI order. Empty where that is not sure: the driver has another number of GPUs than the description of the
/// node, a GPU's device file is not known, or one is in MIG mode. For a step, not for each of its tasks.
std::vector<int> counted_by_cuda(const placement::Node& node, const std::vector<MigInstance>& instances,
                                 const std::string& root = "/");

/// Whether Slurm's CUDA_VISIBLE_DEVICES names GPUs by number, as it does unless gres.conf has env_uuid.
bool are_numbers(const std::vector<std::string>& cuda_devices);

}  // namespace muster::spank
