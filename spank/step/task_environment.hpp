// SPDX-License-Identifier: Apache-2.0
// The environment of the step's tasks: what only Slurm, files and the network know is found once per node, in
// user_init; each task's variables follow from it and from the task's placement.
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

/// In a task that is not placed: takes what an outer step of ours set, and nobody changed since,
/// out of its environment, where RANK and the like would be wrong. Costs one look-up where there is no
/// outer step.
void forget_outer_step(spank_handle* spank);

/// The GPUs that CUDA is to show a task.
struct ShownGpus {
  std::vector<placement::PciAddress> openable;  ///< those that the task can open
  bool by_index = false;                        ///< to be named by their index among these
  bool replaceable = false;                     ///< CUDA_VISIBLE_DEVICES is Slurm's, not the user's
  std::vector<placement::PlacedGpu> list;       ///< in CUDA's order; empty: what Slurm shows stays
  int first_own = 0;                            ///< index in it of the first of the task's own
};

class TaskEnvironment {
 public:
  TaskEnvironment() = default;
  /// In user_init, once per node. profiles: the folder of the administrator's profiles.
  TaskEnvironment(spank_handle* spank, const SlurmFacts& facts, const Parts& parts,
                  const std::string& profiles);

  /// What is wrong with the profiles, one line each; they are left out. Under --muster=strict a reason to
  /// fail.
  const std::vector<std::string>& complaints() const { return complaints_; }

  /// What is set and what is left alone for one task. In task_init it decides on the task's own environment;
  /// for another task of the node it is what that task's would say, too.
  placement::EnvironmentChange decide(spank_handle* spank, const placement::TaskPlacement& task, int rank,
                                      const ShownGpus& shown) const;

  /// A variable as the tasks will find it: in their environment, in NCCL's files or by a profile; nullopt:
  /// not set.
  std::optional<std::string> value_of(spank_handle* spank, const std::string& name) const;

  /// For --muster=explain: a line for each variable, without those that differ from rank to rank.
  std::vector<std::string> explain(spank_handle* spank, const placement::TaskPlacement& task, int rank) const;

  /// In task_init: sets what decide() said, and takes out what an outer step of ours set and this one does
  /// not. A variable that cannot be set is one line in the log.
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
  Parts parts_;
  placement::JobFacts job_;                    // what all tasks of the node share
  std::vector<placement::Variable> left_out_;  // what cannot be derived, and why
  placement::Configured configured_;           // what files say
  std::vector<std::string> complaints_;
};

}  // namespace muster::spank
