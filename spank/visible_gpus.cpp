// SPDX-License-Identifier: Apache-2.0
#include "visible_gpus.hpp"

#include <algorithm>

namespace muster::spank {

namespace {

using placement::PlacedGpu;

bool same(const PlacedGpu& one, const PlacedGpu& other) {
  return one.pci == other.pci && (!one.mig || one.uuid == other.uuid);
}

bool contains(const std::vector<PlacedGpu>& list, const PlacedGpu& gpu) {
  return std::any_of(list.begin(), list.end(), [&](const PlacedGpu& one) { return same(one, gpu); });
}

bool tasks_share(const placement::Placement& plan) {
  std::vector<PlacedGpu> seen;
  for (const auto& task : plan.tasks)
    for (const auto& gpu : task.gpus) {
      if (contains(seen, gpu)) return true;
      seen.push_back(gpu);
    }
  return false;
}

}  // namespace

VisibleChoice choose_visible(const VisibleFacts& facts, const placement::Placement& plan) {
  const bool shared = tasks_share(plan);
  const char* obstacle = nullptr;
  if (facts.isolated)
    obstacle = "Slurm hides the other tasks' GPUs from each task";
  else if (facts.dealt_by_slurm)
    obstacle = "Slurm binds the tasks to GPUs itself (--gpu-bind)";
  else if (shared)
    obstacle = "several tasks use one GPU";
  const bool as_slurm = !facts.asked;
  const Visible wanted = facts.asked.value_or(facts.bound ? Visible::own : Visible::node);
  if (wanted == Visible::node && obstacle != nullptr)
    return {Visible::own, obstacle,
            as_slurm ? ""
                     : "visible=node cannot be had: " + std::string(obstacle) +
                           ", so each task is shown its own GPUs"};
  if (!as_slurm) return {wanted, "asked for", ""};
  if (wanted == Visible::own) return {wanted, "as Slurm does for --gpus-per-task and its like", ""};
  return {wanted, "as Slurm does for --gres, --gpus-per-node and --gpus", ""};
}

std::vector<PlacedGpu> in_rank_order(const placement::Placement& plan, const std::vector<PlacedGpu>& all) {
  std::vector<PlacedGpu> ordered;
  for (const auto& task : plan.tasks) ordered.insert(ordered.end(), task.gpus.begin(), task.gpus.end());
  for (const auto& gpu : all)
    if (!contains(ordered, gpu)) ordered.push_back(gpu);
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
