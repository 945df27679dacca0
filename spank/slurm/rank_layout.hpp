// SPDX-License-Identifier: Apache-2.0
// On which node of the step each rank runs. Slurm passes a task only the number of tasks of each node and the
// distribution; the rest follows as in Slurm's slurm_step_layout.c (22.05 to 26.05). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::spank {

/// The unparsed values in a step's environment.
struct StepShape {
  std::string node_list;       ///< SLURM_STEP_NODELIST
  std::string tasks_per_node;  ///< SLURM_STEP_TASKS_PER_NODE, e.g. "2(x3),1"
  std::string distribution;    ///< SLURM_DISTRIBUTION; empty: Slurm's default, block
  std::string plane_size;      ///< SLURM_DIST_PLANESIZE
  int world_size = 0;
  /// From srun if nothing else determines the layout: the node of each rank, "2,0,0,1"; empty: none.
  std::string explicit_layout{};
};

/// In this variable srun passes the layout of a step with --distribution=arbitrary: "JOB.STEP:2,0,0,1".
constexpr const char* layout_variable = "MUSTER_STEP_LAYOUT";

/// The value of that variable; empty if it would be longer than Linux allows.
std::string format_layout(std::uint32_t job_id, std::uint32_t step_id,
                          const std::vector<std::uint32_t>& nodes);

/// The layout in that value; empty if the value is for another step.
std::string extract_layout(const std::string& text, std::uint32_t job_id, std::uint32_t step_id);

struct RankLayout {
  std::vector<std::string> hosts;       ///< the step's nodes in Slurm's order; empty: the list is malformed
  std::vector<std::vector<int>> ranks;  ///< ranks[node], ascending; empty: not known for sure
  std::string unknown;                  ///< the reason, if `ranks` is empty
  std::optional<std::size_t> node_of(int rank) const;
};

/// own_ranks: the ranks of this node's tasks, ascending, as Slurm reports them; a layout that disagrees with
/// them is not known. Every node of a step gets the same answer, or none.
RankLayout lay_out(const StepShape& shape, const std::vector<int>& own_ranks);

/// Slurm's name of the node at this index of a step's nodes; nullopt: the list is malformed or shorter. Pure.
std::optional<std::string> find_node_name(const std::string& node_list, std::size_t index);

/// A heterogeneous step (srun a : b). Each component has its own slurmstepd on its own nodes (Slurm gives no
/// node to two of them), and SPANK's items there describe only the component; the environment alone describes
/// the whole step.
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

/// The same for the components of a heterogeneous step, which have consecutive ranks.
RankLayout lay_out_components(const std::vector<StepShape>& components, const std::vector<int>& own_ranks);

/// The most ranks for which a layout is made. Their number comes from the step's environment, which users can
/// forge.
inline constexpr int most_ranks = 1 << 20;

/// "2(x3),1" → 2 2 2 1; nullopt if it is malformed or adds up to more than most_ranks.
std::optional<std::vector<int>> expand_counts(std::string_view text);

}  // namespace muster::spank
