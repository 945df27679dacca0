// SPDX-License-Identifier: Apache-2.0
// Which GPUs CUDA shows the tasks of a node, and in which order (visible=own|node). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options.hpp"
#include "placement/place/place.hpp"

namespace muster::spank {

/// The facts on which the choice depends.
struct VisibleFacts {
  std::optional<Visible> requested;  ///< by the user or the administrator
  bool bound = false;                ///< Slurm shows each task its own GPUs, or would without the plugin
  bool isolated = false;             ///< a task cannot open the other tasks' GPUs
  bool assigned_by_slurm = false;    ///< Slurm chose GPUs of the step for the tasks, and that choice holds
  bool unnamed = false;  ///< MIG instances without CUDA_VISIBLE_DEVICES, which has CUDA's names of them
};

struct VisibleChoice {
  Visible visible = Visible::own;
  std::string reason;
  std::string problem;  ///< one line if the request cannot be met; else empty
};

/// The request if there is one, else what Slurm itself would have shown, so that a script that worked without
/// the plugin works with it. If tasks share GPUs, no index belongs to one task alone, so each task sees only
/// its own GPUs.
VisibleChoice choose_visible(const VisibleFacts& facts, const placement::Placement& plan);

/// All GPUs of the step, ordered so that those of the task with local rank r and K GPUs are at K*r to
/// K*r+K-1. GPUs of no task come last. all: the step's GPUs in any order.
std::vector<placement::PlacedGpu> in_rank_order(const placement::Placement& plan,
                                                const std::vector<placement::PlacedGpu>& all);

/// One line if a script that takes GPU number LOCAL_RANK would get another task's GPU; else empty.
std::string index_warning(Visible visible, const placement::Placement& plan);

}  // namespace muster::spank
