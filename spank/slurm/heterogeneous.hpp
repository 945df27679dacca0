// SPDX-License-Identifier: Apache-2.0
// The components of a heterogeneous step (srun a : b). Each has its own slurmstepd on its own nodes (Slurm
// gives no node to two of them), and SPANK's items there describe only the component; the environment alone
// describes the whole step. Pure.
#pragma once

#include <string>
#include <vector>

#include "slurm/rank_layout.hpp"

namespace muster::spank {

struct HeterogeneousStep {
  StepShape whole;  ///< all components together, the nodes sorted by name
  /// SLURM_JOB_NODELIST_HET_GROUP_0, …: the job's components in their order, some of which may not take part
  /// in the step. Empty for a heterogeneous step of an ordinary job.
  std::vector<std::string> groups;
  std::size_t own_group = 0;  ///< the index of this component among them
};

/// Slurm's own limit (its MAX_HET_JOB_COMPS).
inline constexpr std::size_t most_groups = 128;

struct Components {
  std::vector<StepShape> shapes;  ///< those in the step, in the order of their ranks; empty: not known
  int first_rank = -1;            ///< the rank of this component's first task; -1: not known
};

Components find_components(const HeterogeneousStep& step);

}  // namespace muster::spank
