// SPDX-License-Identifier: Apache-2.0
// The variables of a step's tasks. Pure: read_task_environment.hpp gathers what they follow from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options.hpp"
#include "placement/environment/environment.hpp"
#include "placement/place/place.hpp"

namespace muster::spank {

/// The GPUs that CUDA shows to a task.
struct ShownGpus {
  std::vector<placement::PciAddress> openable;  ///< those that the task can open
  bool by_index = false;                   ///< CUDA_VISIBLE_DEVICES names GPUs by their index among these
  bool replaceable = false;                ///< CUDA_VISIBLE_DEVICES is Slurm's, not the user's
  std::vector<placement::PlacedGpu> list;  ///< in CUDA's order; empty: Slurm's list stays
  int first_own = 0;                       ///< index of the task's first own GPU in the list
};

/// What the variables of all tasks of a node follow from, beside each task's placement. get_env: the task's
/// environment; for another task of the node the results are the same as in that task.
struct TaskEnvironment {
  EnabledParts parts;
  placement::JobFacts job;                    ///< the facts that all tasks of the node share
  std::vector<placement::Variable> left_out;  ///< variables that cannot be derived, and the reasons
  placement::FileSettings file_settings;      ///< settings from files

  /// The variables to set and to leave alone for one task.
  placement::EnvironmentChange decide(const placement::TaskPlacement& task, int rank, const ShownGpus& shown,
                                      const placement::GetEnv& get_env) const;

  /// A variable's value for the tasks: from their environment, NCCL's files or a profile; nullopt: not set.
  std::optional<std::string> effective_value(const std::string& name, const placement::GetEnv& get_env) const;

  /// For --muster=explain: one line for each variable, without those that differ from rank to rank.
  std::vector<std::string> explain(const placement::TaskPlacement& task, int rank,
                                   const placement::GetEnv& get_env) const;
};

}  // namespace muster::spank
