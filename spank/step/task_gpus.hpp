// SPDX-License-Identifier: Apache-2.0
// Which of the step's GPUs a task has, and which of them CUDA shows to it.
#pragma once

#include <string>
#include <vector>

#include "gpus/visible_gpus.hpp"
#include "step/step.hpp"

namespace muster::spank {

/// The step's GPUs as one of its tasks finds them.
struct TaskGpus {
  std::vector<int> openable;              ///< minors of whole GPUs
  bool isolated = false;                  ///< some of the step's GPUs cannot be opened
  bool bound = false;                     ///< Slurm shows each task its own GPUs, see GpuRequest
  bool bound_by_default = false;          ///< see bound_by_default(): Muster assigns the GPUs as planned
  bool replaceable = false;               ///< CUDA_VISIBLE_DEVICES is Slurm's, so Muster may replace it
  bool unnamed = false;                   ///< MIG instances that no CUDA_VISIBLE_DEVICES names
  std::vector<placement::PlacedGpu> own;  ///< Slurm's choice for this task; empty: the plan decides
};

/// In the task, since it tests which device files the task may open.
TaskGpus find_task_gpus(const Step& step, const TaskFacts& task);

VisibleChoice choose_visibility(const Step& step, const TaskGpus& found);

ShownGpus choose_shown_gpus(const Step& step, const placement::TaskPlacement& task, const TaskGpus& found);

/// One line each. For one task of the step, not for each of a thousand nodes.
std::vector<std::string> gpu_warnings(const Step& step, const TaskGpus& found);

}  // namespace muster::spank
