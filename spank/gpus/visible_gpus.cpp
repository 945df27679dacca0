// SPDX-License-Identifier: Apache-2.0
#include "gpus/visible_gpus.hpp"

#include "gpus/gpu_assignment.hpp"

namespace muster::spank {

namespace {

using placement::PlacedGpu;

bool tasks_share(const placement::Placement& plan) {
  std::vector<PlacedGpu> seen;
  for (const auto& task : plan.tasks)
    for (const auto& gpu : task.gpus) {
      if (is_among(gpu, seen)) return true;
      seen.push_back(gpu);
    }
  return false;
}

}  // namespace

VisibleChoice choose_visible(const VisibleFacts& facts, const placement::Placement& plan) {
  if (facts.unnamed) {
    const std::string reason = "Slurm has set no CUDA_VISIBLE_DEVICES, which has the names of MIG instances";
    return {Visible::own, reason, facts.requested ? "visible= has no effect: " + reason : ""};
  }
  const bool shared = tasks_share(plan);
  const char* reason_against = nullptr;
  if (facts.isolated)
    reason_against = "Slurm hides the other tasks' GPUs from each task";
  else if (facts.assigned_by_slurm)
    reason_against = "Slurm binds the tasks to GPUs itself (--gpu-bind)";
  else if (shared)
    reason_against = "several tasks use one GPU";
  const bool as_slurm = !facts.requested;
  const Visible wanted = facts.requested.value_or(facts.bound ? Visible::own : Visible::node);
  if (wanted == Visible::node && reason_against != nullptr)
    return {Visible::own, reason_against,
            as_slurm ? ""
                     : "visible=node is not possible: " + std::string(reason_against) +
                           ", so each task is shown its own GPUs"};
  if (!as_slurm) return {wanted, "asked for", ""};
  if (wanted == Visible::own) return {wanted, "as Slurm does for --gpus-per-task and its like", ""};
  return {wanted, "as Slurm does for --gres, --gpus-per-node and --gpus", ""};
}

std::vector<PlacedGpu> in_rank_order(const placement::Placement& plan, const std::vector<PlacedGpu>& all) {
  std::vector<PlacedGpu> ordered;
  for (const auto& task : plan.tasks) ordered.insert(ordered.end(), task.gpus.begin(), task.gpus.end());
  for (const auto& gpu : all)
    if (!is_among(gpu, ordered)) ordered.push_back(gpu);
  return ordered;
}

std::string index_warning(Visible visible, const placement::Placement& plan) {
  if (visible != Visible::node || plan.tasks.size() < 2) return {};
  const std::size_t each = plan.tasks.front().gpus.size();
  if (each < 2) return {};
  return "each task has " + std::to_string(each) + " GPUs, from index " + std::to_string(each) +
         "*LOCAL_RANK on: a script that takes GPU number LOCAL_RANK takes another task's; ask for one GPU a "
         "task, or --muster=visible=own";
}

}  // namespace muster::spank
