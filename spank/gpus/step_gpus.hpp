// SPDX-License-Identifier: Apache-2.0
// The GPUs and MIG instances that Slurm gave a step on this node.
#pragma once

#include <string>
#include <vector>

#include "gpus/mig.hpp"
#include "placement/place/place.hpp"
#include "slurm/slurm_facts.hpp"

namespace muster::spank {

struct StepGpus {
  std::vector<int> minors;  ///< N of /dev/nvidiaN of the whole GPUs
  std::vector<MigInstance> instances;
  std::vector<int> cuda_minors;           ///< of the node's GPUs, see find_cuda_minors()
  std::vector<placement::PlacedGpu> all;  ///< the whole GPUs in the order of `minors`, then the instances
};

/// names: of the step's GPUs, as in SlurmFacts. Which MIG instances are the step's is known from the device
/// files that this process may open.
/// @throws std::runtime_error with one line: the problem and the remedy.
StepGpus find_step_gpus(const placement::Node& node, const std::vector<std::string>& names,
                        const std::string& root = "/");

/// The GPUs that --gpu-bind gives each task, for the placement's request. Empty: Slurm chooses, and each task
/// finds out which.
std::vector<std::vector<placement::PciAddress>> gpus_bound_by_user(const placement::Node& node,
                                                                   const SlurmFacts& facts,
                                                                   const StepGpus& gpus);

/// The addresses of the node's GPUs with these device files.
/// @throws std::runtime_error with one line if the driver lists no such GPU.
std::vector<placement::PciAddress> find_addresses(const placement::Node& node,
                                                  const std::vector<int>& minors);

/// The numbers N of the node's device files /dev/nvidiaN. CUDA counts the GPUs that a process can open, in
/// PCI order. Empty if that is uncertain: the driver lists another number of GPUs than the node's
/// description, a GPU's device file is not known, or a GPU is in MIG mode. Call this for a step, not for each
/// of its tasks.
std::vector<int> find_cuda_minors(const placement::Node& node, const std::vector<MigInstance>& instances,
                                  const std::string& root = "/");

/// Whether Slurm's CUDA_VISIBLE_DEVICES names GPUs by number, as it does unless gres.conf has env_uuid.
bool are_numbers(const std::vector<std::string>& cuda_devices);

}  // namespace muster::spank
