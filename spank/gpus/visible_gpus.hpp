// SPDX-License-Identifier: Apache-2.0
// Which GPUs CUDA shows the tasks of a node, and in which order (visible=own|node). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options.hpp"
#include "placement/place/place.hpp"

namespace muster::spank {

/// What there is to decide by.
struct VisibleFacts {
  std::optional<Visible> asked;  ///< by the user or the administrator
  bool bound = false;            ///< Slurm shows each task its own GPUs, or would without the plugin
  bool isolated = false;         ///< a task cannot open the others' GPUs
  bool dealt_by_slurm = false;   ///< Slurm chose among the step's GPUs for the tasks, and that holds
  bool unnamed = false;  ///< MIG instances without CUDA_VISIBLE_DEVICES, which has CUDA's names of them
};

struct VisibleChoice {
  Visible visible = Visible::own;
  std::string reason;
  std::string problem;  ///< one line where what was asked for cannot be had; else empty
};

/// What was asked for, else what Slurm itself would have shown: a script that worked without the plugin then
/// works with it. Where tasks share GPUs no index is one task's own, so that each is shown its own.
VisibleChoice choose_visible(const VisibleFacts& facts, const placement::Placement& plan);

/// All GPUs of the step, in an order in which those of the task with local rank r and K GPUs stand at K*r to
/// K*r+K-1; GPUs of no task come last. all: the step's GPUs in any order.
std::vector<placement::PlacedGpu> in_rank_order(const placement::Placement& plan,
                                                const std::vector<placement::PlacedGpu>& all);

/// One line where scripts that take GPU number LOCAL_RANK find another task's GPU there; empty: they do not.
std::string index_warning(Visible visible, const placement::Placement& plan);

}  // namespace muster::spank
