// SPDX-License-Identifier: Apache-2.0
// On which node of the step each rank runs. Slurm tells a task only how many tasks each node has and how srun
// was asked to deal them; the rest follows as in Slurm's slurm_step_layout.c (22.05 to 26.05). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::spank {

/// What a step's environment says, word for word.
struct StepShape {
  std::string node_list;       ///< SLURM_STEP_NODELIST
  std::string tasks_per_node;  ///< SLURM_STEP_TASKS_PER_NODE, e.g. "2(x3),1"
  std::string distribution;    ///< SLURM_DISTRIBUTION; empty: Slurm's default, block
  std::string plane_size;      ///< SLURM_DIST_PLANESIZE
  int world_size = 0;
  std::string
      told{};  ///< by srun where nothing else says it: the node of each rank, "2,0,0,1"; empty: nothing
};

/// Where srun tells the layout of a step that was dealt by --distribution=arbitrary: "JOB.STEP:2,0,0,1".
constexpr const char* told_variable = "MUSTER_STEP_LAYOUT";

/// What srun puts into that variable; empty when the text would be longer than Linux lets one variable be.
std::string told_text(std::uint32_t job_id, std::uint32_t step_id, const std::vector<std::uint32_t>& nodes);

/// What srun told of this step; empty when the text is of another one.
std::string told_of(const std::string& text, std::uint32_t job_id, std::uint32_t step_id);

struct RankLayout {
  std::vector<std::string> hosts;       ///< the step's nodes in Slurm's order; empty: the list cannot be read
  std::vector<std::vector<int>> ranks;  ///< ranks[node], ascending; empty: not known for sure
  std::string unknown;                  ///< why `ranks` is empty, in words
  std::optional<std::size_t> node_of(int rank) const;
};

/// own_ranks: the ranks of this node's tasks, ascending, which Slurm does tell; a layout that disagrees is
/// not known. Every node of a step comes to the same answer, or to none.
RankLayout lay_out(const StepShape& shape, const std::vector<int>& own_ranks);

/// The same for the components of a heterogeneous step, whose ranks follow one another.
RankLayout lay_out_components(const std::vector<StepShape>& components, const std::vector<int>& own_ranks);

/// The most ranks of a step that a layout is made for: what says how many there are comes with the step's
/// environment, which users can forge.
inline constexpr int most_ranks = 1 << 20;

/// "2(x3),1" → 2 2 2 1; nullopt when it is not well formed or comes to more than most_ranks.
std::optional<std::vector<int>> expand_counts(std::string_view text);

}  // namespace muster::spank
