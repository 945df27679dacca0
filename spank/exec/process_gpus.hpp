// SPDX-License-Identifier: Apache-2.0
// Which GPUs a process and the other processes of its launcher on this host have, where there is no Slurm.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpus/step_gpus.hpp"
#include "placement/environment/environment.hpp"
#include "placement/topology/node.hpp"

namespace muster::spank {

/// GPUs by the N of /dev/nvidiaN.
struct ProcessGpus {
  std::vector<int> allotted;  ///< of all processes of the launcher on this host, in PCI order
  std::vector<int> own;  ///< this process's, if CUDA_VISIBLE_DEVICES left it fewer than there are processes
  bool replaceable = false;  ///< CUDA_VISIBLE_DEVICES is the allotment, so each process may narrow it
};

/// openable: the GPUs whose device files this process may open, in PCI order. CUDA_VISIBLE_DEVICES limits
/// them. If it names enough GPUs for all local processes, it is their allotment. If it names fewer, somebody
/// gave this process its own. local_size 1: the variable stays as it is. Pure if get_env is.
/// @throws std::runtime_error with one line if the variable names a GPU that is not openable, or names GPUs
/// of different models by an index whose order is not known.
ProcessGpus choose_process_gpus(const placement::Node& node, const std::vector<int>& openable, int local_size,
                                int tasks_per_gpu, const placement::GetEnv& get_env);

/// The GPUs that this process may open, and MIG instances.
struct GpuAccess {
  std::vector<int> minors;  ///< of whole GPUs, in PCI order
  int instances = 0;        ///< MIG instances
};

GpuAccess find_openable_gpus(const placement::Node& node, const std::string& root = "/");

}  // namespace muster::spank
