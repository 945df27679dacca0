// SPDX-License-Identifier: Apache-2.0
// The environment of the step's tasks. The facts from Slurm, files and the network are read once per node, in
// user_init; each task's variables follow from them and from the task's placement.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options.hpp"
#include "placement/environment/environment.hpp"
#include "placement/place/place.hpp"
#include "slurm/rank_layout.hpp"
#include "slurm/slurm_facts.hpp"

namespace muster::spank {

/// In a task that is not placed: removes the variables that Muster set for an outer step, unless they have
/// been changed since; RANK and the like would be wrong. Costs one look-up if there is no outer step.
void clear_outer_step_environment(spank_handle* spank);

/// The GPUs that CUDA shows to a task.
struct ShownGpus {
  std::vector<placement::PciAddress> openable;  ///< those that the task can open
  bool by_index = false;                   ///< CUDA_VISIBLE_DEVICES names GPUs by their index among these
  bool replaceable = false;                ///< CUDA_VISIBLE_DEVICES is Slurm's, not the user's
  std::vector<placement::PlacedGpu> list;  ///< in CUDA's order; empty: Slurm's list stays
  int first_own = 0;                       ///< index of the task's first own GPU in the list
};

class TaskEnvironment {
 public:
  TaskEnvironment() = default;
  /// In user_init, once per node. profiles: the folder of the administrator's profiles.
  TaskEnvironment(spank_handle* spank, const SlurmFacts& facts, const EnabledParts& parts,
                  const std::string& profiles);

  /// One line for each profile that was left out, with the reason. Under --muster=strict the step fails.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// The variables to set and to leave alone for one task. In task_init it depends on the task's own
  /// environment; for another task of the node the result is the same as in that task.
  placement::EnvironmentChange decide(spank_handle* spank, const placement::TaskPlacement& task, int rank,
                                      const ShownGpus& shown) const;

  /// A variable's value for the tasks: from their environment, NCCL's files or a profile; nullopt: not set.
  std::optional<std::string> effective_value(spank_handle* spank, const std::string& name) const;

  /// For --muster=explain: one line for each variable, without those that differ from rank to rank.
  std::vector<std::string> explain(spank_handle* spank, const placement::TaskPlacement& task, int rank) const;

  /// In task_init: sets the variables of decide(), and removes those that Muster set for an outer step and
  /// does not set for this one. Logs one line for a variable that cannot be set.
  void apply(spank_handle* spank, const placement::EnvironmentChange& change, int rank) const;

 private:
  friend struct RecordAccess;
  void find_interface(spank_handle* spank, const RankLayout& layout, std::size_t node);
  void find_mpi_interface(spank_handle* spank);
  void find_frameworks(spank_handle* spank, const SlurmFacts& facts, const RankLayout& layout);
  void find_tensorflow(const RankLayout& layout);
  void read_files(spank_handle* spank, const std::string& profiles, const std::string& node);
  bool orders_gpus_by_pci(spank_handle* spank) const;

  std::string host_;
  EnabledParts parts_;
  placement::JobFacts job_;                    // the facts that all tasks of the node share
  std::vector<placement::Variable> left_out_;  // variables that cannot be derived, and the reasons
  placement::FileSettings file_settings_;      // settings from files
  std::vector<std::string> warnings_;
};

}  // namespace muster::spank
