// SPDX-License-Identifier: Apache-2.0
#include "gpu_choice.hpp"

#include <algorithm>

#include "placement/cpu_set.hpp"
#include "placement/error.hpp"

namespace muster::spank {

namespace {

// CUDA_VISIBLE_DEVICES as numbers; nullopt when it is not a list of numbers (UUIDs, "NoDevFiles").
std::optional<std::vector<int>> indices(const std::string& text) {
  try {
    return placement::CpuSet::parse_list(text).to_vector();
  } catch (const placement::Error&) {
    return std::nullopt;
  }
}

}  // namespace

GpuChoice gpu_choice(const std::vector<int>& step, const std::vector<int>& visible,
                     const std::optional<std::string>& cuda_devices, bool confined) {
  if (visible.size() < step.size()) return {visible, false};
  const auto listed = cuda_devices ? indices(*cuda_devices) : std::nullopt;
  if (!listed || listed->empty()) return {};
  if (listed->size() == step.size()) return {{}, true};
  GpuChoice choice;
  choice.set_by_slurm = true;
  for (const int index : *listed) {
    const bool known = confined ? index < static_cast<int>(step.size())
                                : std::find(step.begin(), step.end(), index) != step.end();
    if (!known) return {};
    choice.minors.push_back(confined ? step[static_cast<std::size_t>(index)] : index);
  }
  return choice;
}

bool deals_each_gpu_once(const std::string& binding) {
  return binding.empty() || binding.find("per_task") != std::string::npos;
}

placement::TaskPlacement row_for(const placement::Placement& plan, const placement::Node& node,
                                 int local_rank, const std::vector<placement::PciAddress>& gpus,
                                 bool dealt_once) {
  const auto& planned = plan.tasks.at(static_cast<std::size_t>(local_rank));
  const auto same = [](const placement::PlacedGpu& placed, const placement::PciAddress& pci) {
    return placed.pci == pci;
  };
  if (gpus.empty() || std::equal(planned.gpus.begin(), planned.gpus.end(), gpus.begin(), gpus.end(), same))
    return planned;
  // Only a task that was to have exactly these GPUs hands its cores over; GPUs that several tasks share must
  // not make them share cores.
  const auto owner = std::find_if(plan.tasks.begin(), plan.tasks.end(), [&](const auto& task) {
    return dealt_once && std::equal(task.gpus.begin(), task.gpus.end(), gpus.begin(), gpus.end(), same);
  });
  placement::TaskPlacement row = owner == plan.tasks.end() ? planned : *owner;
  row.local_rank = local_rank;
  row.gpus.clear();
  for (const auto& pci : gpus)
    if (const auto* gpu = node.find_gpu(pci)) row.gpus.push_back({gpu->pci, gpu->uuid, gpu->domain});
  return row;
}

placement::TaskPlacement row_with(const placement::Placement& plan, int local_rank,
                                  const std::vector<std::string>& instances) {
  const auto& planned = plan.tasks.at(static_cast<std::size_t>(local_rank));
  const auto has_these = [&](const placement::TaskPlacement& task) {
    const auto is_one = [&](const placement::PlacedGpu& gpu) {
      return std::find(instances.begin(), instances.end(), gpu.uuid) != instances.end();
    };
    return task.gpus.size() == instances.size() && std::all_of(task.gpus.begin(), task.gpus.end(), is_one);
  };
  const auto owner = std::find_if(plan.tasks.begin(), plan.tasks.end(), has_these);
  if (instances.empty() || has_these(planned) || owner == plan.tasks.end()) return planned;
  placement::TaskPlacement row = *owner;
  row.local_rank = local_rank;
  return row;
}

}  // namespace muster::spank
