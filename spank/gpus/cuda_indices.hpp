// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gpus/mig.hpp"
#include "placement/topology/node.hpp"

namespace muster::spank {

/// The numbers N of the node's device files /dev/nvidiaN. CUDA counts the GPUs that a process can open, in
/// PCI order. Empty if that is uncertain: the driver lists another number of GPUs than the node's
/// description, a GPU's device file is not known, or a GPU is in MIG mode. Call this for a step, not for each
/// of its tasks.
std::vector<int> find_cuda_minors(const placement::Node& node, const std::vector<MigInstance>& instances,
                                  const std::string& root = "/");

/// Whether Slurm's CUDA_VISIBLE_DEVICES names GPUs by number, as it does unless gres.conf has env_uuid.
bool are_numbers(const std::vector<std::string>& cuda_devices);

}  // namespace muster::spank
