// SPDX-License-Identifier: Apache-2.0
// Which GPUs a task really has: the plan proposes, but where Slurm bound the task itself (isolation,
// --gpu-bind) its choice holds, and the cores, memory and NIC planned for that GPU go with it. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "placement/place/place.hpp"

namespace muster::spank {

struct GpuChoice {
  std::vector<int> minors;  ///< the GPUs that Slurm or the user left to this task; empty: no choice was made,
                            ///< the plan decides
  bool set_by_slurm = false;  ///< CUDA_VISIBLE_DEVICES names GPUs of the step by Slurm's numbers, those of
                              ///< the device files, while CUDA counts in PCI order
};

/// A GPU of the step, as Slurm may name it in CUDA_VISIBLE_DEVICES.
struct StepGpu {
  int minor = -1;    ///< N of /dev/nvidiaN
  std::string uuid;  ///< what gres.conf's env_uuid names (Slurm 26.05); empty: unknown
};

/// step: the step's GPUs on this node, ascending by minor; visible: those this task may open; cuda_devices:
/// the task's CUDA_VISIBLE_DEVICES. confined: Slurm hides the GPUs that are not the step's, and then counts
/// CUDA_VISIBLE_DEVICES from 0 among the step's own.
GpuChoice gpu_choice(const std::vector<StepGpu>& step, const std::vector<int>& visible,
                     const std::optional<std::string>& cuda_devices, bool confined);

/// Whether this GPU, or MIG instance, is one of the list.
bool is_among(const placement::PlacedGpu& gpu, const std::vector<placement::PlacedGpu>& list);

/// The rows of the plan that a task with these GPUs would have, the best first: those for exactly these GPUs,
/// its own first or else by turns, so that tasks on one GPU begin at different ones; then those whose GPUs
/// are all among them; then its own. With gpus empty its own row alone.
std::vector<int> wanted_rows(const placement::Placement& plan, int local_rank,
                             const std::vector<placement::PlacedGpu>& gpus);

/// The row of the plan for a task that has these GPUs, which may be others than the row was planned for: then
/// nothing is known of how near they are. Empty gpus: those of the row.
placement::TaskPlacement row_with(const placement::Placement& plan, int row, int local_rank,
                                  const std::vector<placement::PlacedGpu>& gpus);

}  // namespace muster::spank
