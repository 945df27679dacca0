// SPDX-License-Identifier: Apache-2.0
// The environment of the step's tasks: what only Slurm, files and the network know is found once per node, in
// user_init; each task's variables follow from it and from the task's placement.
#pragma once

#include <string>
#include <vector>

#include "options.hpp"
#include "placement/environment.hpp"
#include "placement/place.hpp"
#include "rank_layout.hpp"
#include "slurm_facts.hpp"

namespace muster::spank {

/// In user_init of a step that is not placed: takes what an outer step of ours set, and nobody changed since,
/// out of the tasks' environment, where RANK and the like would be wrong. Costs one look-up where there is no
/// outer step.
void forget_outer_step(spank_handle* spank);

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
  /// in user_init on the job's, which lacks what Slurm adds for each task (CUDA_VISIBLE_DEVICES among them).
  /// visible_gpus: those that the task can open. cuda_devices_by_slurm: CUDA_VISIBLE_DEVICES is Slurm's and
  /// may be narrowed.
  placement::EnvironmentChange decide(spank_handle* spank, const placement::TaskPlacement& task, int rank,
                                      std::vector<placement::PciAddress> visible_gpus,
                                      bool cuda_devices_by_slurm) const;

  /// In user_init, for --muster=explain: a line for each variable, without ranks and the GPUs' own, which
  /// Slurm settles later.
  std::vector<std::string> explain(spank_handle* spank, const placement::TaskPlacement& task, int rank) const;

  /// In task_init: sets what decide() said. A variable that cannot be set is one line in the log.
  void apply(spank_handle* spank, const placement::EnvironmentChange& change, int rank) const;

 private:
  void find_interface(spank_handle* spank, const RankLayout& layout, std::size_t node);
  void find_frameworks(spank_handle* spank, const SlurmFacts& facts, const RankLayout& layout);
  void find_tensorflow(const RankLayout& layout);
  void read_files(spank_handle* spank, const std::string& profiles, const std::string& node);

  std::string host_;
  Parts parts_;
  placement::JobFacts job_;                    // what all tasks of the node share
  std::vector<placement::Variable> left_out_;  // what cannot be derived, and why
  placement::Configured configured_;           // what files say
  std::vector<std::string> complaints_;
};

}  // namespace muster::spank
