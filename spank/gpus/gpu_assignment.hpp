// SPDX-License-Identifier: Apache-2.0
// Which GPUs a task really has. The plan decides, unless Slurm bound the task itself (isolation, --gpu-bind);
// then Slurm's choice holds, and the task gets the cores, memory and NIC planned for that GPU. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "placement/place/place.hpp"

namespace muster::spank {

struct GpuAssignment {
  /// The GPUs that Slurm or the user left to this task; empty: neither chose, so the plan decides.
  std::vector<int> minors;
  /// CUDA_VISIBLE_DEVICES names GPUs of the step by Slurm's numbers, which are those of the device files,
  /// while CUDA counts in PCI order.
  bool set_by_slurm = false;
};

/// A GPU of the step, as Slurm may name it in CUDA_VISIBLE_DEVICES.
struct StepGpu {
  int minor = -1;    ///< N of /dev/nvidiaN
  std::string uuid;  ///< its name under gres.conf's env_uuid (Slurm 26.05); empty: unknown
};

/// step: the step's GPUs on this node, ascending by minor; visible: those that this task may open;
/// cuda_devices: the task's CUDA_VISIBLE_DEVICES; confined: Slurm hides the GPUs that are not the step's, and
/// then CUDA_VISIBLE_DEVICES counts from 0 among the step's own.
GpuAssignment find_gpu_assignment(const std::vector<StepGpu>& step, const std::vector<int>& visible,
                                  const std::optional<std::string>& cuda_devices, bool confined);

/// Whether this GPU, or MIG instance, is in the list.
bool is_among(const placement::PlacedGpu& gpu, const std::vector<placement::PlacedGpu>& list);

/// The rows of the plan that suit a task with these GPUs, best first. First the rows for exactly these GPUs,
/// starting with the task's own row; if its own is not among them, tasks on one GPU start at different rows.
/// Then the rows whose GPUs are all among these, then the task's own row. Empty gpus: only its own row.
std::vector<int> preferred_rows(const placement::Placement& plan, int local_rank,
                                const std::vector<placement::PlacedGpu>& gpus);

/// This row of the plan, for a task that has these GPUs. If the row was planned for other GPUs, their
/// distances are unknown. Empty gpus: those of the row.
placement::TaskPlacement placement_for_gpus(const placement::Placement& plan, int row, int local_rank,
                                            const std::vector<placement::PlacedGpu>& gpus);

}  // namespace muster::spank
