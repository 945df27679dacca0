// SPDX-License-Identifier: Apache-2.0
// Which GPUs a task really has: the plan proposes, but where Slurm bound the task itself (isolation,
// --gpu-bind) its choice holds, and the cores, memory and NIC planned for that GPU go with it. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "placement/node.hpp"
#include "placement/place.hpp"

namespace muster::spank {

struct GpuChoice {
  std::vector<int> minors;  ///< the GPUs that Slurm or the user left to this task; empty: no choice was made,
                            ///< the plan decides
  bool set_by_slurm = false;  ///< CUDA_VISIBLE_DEVICES names GPUs of the step by Slurm's numbers, those of the
                              ///< device files, while CUDA counts in PCI order: it is to be said by UUID
};

/// step: the step's GPUs on this node; visible: those this task may open; cuda_devices: the task's
/// CUDA_VISIBLE_DEVICES. confined: Slurm hides the GPUs that are not the step's, and then counts
/// CUDA_VISIBLE_DEVICES from 0 among the step's own.
GpuChoice gpu_choice(const std::vector<int>& step, const std::vector<int>& visible,
                     const std::optional<std::string>& cuda_devices, bool confined);

/// Whether Slurm's binding of GPUs to tasks (SLURMD_TRES_BIND, e.g. "gpu:per_task:1", or "gpu:closest") gives
/// each GPU to one task only.
bool deals_each_gpu_once(const std::string& binding);

/// The task's placement with `gpus` (ascending) instead of the planned ones. When each GPU is dealt to one
/// task only, the cores, memory and NIC are those planned for exactly these GPUs; otherwise, or when no task
/// was to have them, the planned ones stay. The planned row as it is when `gpus` is empty or as planned.
placement::TaskPlacement row_for(const placement::Placement& plan, const placement::Node& node,
                                 int local_rank, const std::vector<placement::PciAddress>& gpus,
                                 bool dealt_once);

/// The task's placement when it has these MIG instances (their names in the plan) instead of the planned
/// ones: all but the local rank of the task that they were planned for. The planned row when `instances` is
/// empty or was not planned for anyone.
placement::TaskPlacement row_with(const placement::Placement& plan, int local_rank,
                                  const std::vector<std::string>& instances);

}  // namespace muster::spank
