// SPDX-License-Identifier: Apache-2.0
#include "gpus/gpu_assignment.hpp"

#include <algorithm>

#include "cpu_set/cpu_set.hpp"
#include "text/split.hpp"

namespace muster::spank {

namespace {

using placement::PlacedGpu;

bool is_same(const PlacedGpu& one, const PlacedGpu& other) {
  return one.pci == other.pci && (!one.mig || one.uuid == other.uuid);
}

bool are_same(const std::vector<PlacedGpu>& some, const std::vector<PlacedGpu>& others) {
  return some.size() == others.size() &&
         std::is_permutation(some.begin(), some.end(), others.begin(), is_same);
}

bool are_among(const std::vector<PlacedGpu>& some, const std::vector<PlacedGpu>& all) {
  return std::all_of(some.begin(), some.end(), [&](const PlacedGpu& gpu) { return is_among(gpu, all); });
}

// CUDA_VISIBLE_DEVICES as minors of the step's GPUs; nullopt if it names anything else (MIG instances,
// "NoDevFiles", a GPU that is not the step's).
std::optional<std::vector<int>> listed_minors(const std::vector<StepGpu>& step, const std::string& text,
                                              bool confined) {
  std::vector<int> minors;
  if (text.starts_with("GPU-")) {
    for (const auto name : split(text, ',')) {
      const auto gpu =
          std::find_if(step.begin(), step.end(), [&](const auto& one) { return one.uuid == name; });
      if (gpu == step.end()) return std::nullopt;
      minors.push_back(gpu->minor);
    }
    return minors;
  }
  const auto indices = CpuSet::parse_list(text);
  if (!indices) return std::nullopt;
  for (const int index : indices->to_vector()) {
    const auto gpu =
        std::find_if(step.begin(), step.end(), [&](const auto& one) { return one.minor == index; });
    const bool known = confined ? index < static_cast<int>(step.size()) : gpu != step.end();
    if (!known) return std::nullopt;
    minors.push_back(confined ? step[static_cast<std::size_t>(index)].minor : index);
  }
  return minors;
}

}  // namespace

bool is_among(const PlacedGpu& gpu, const std::vector<PlacedGpu>& list) {
  return std::any_of(list.begin(), list.end(), [&](const PlacedGpu& one) { return is_same(one, gpu); });
}

GpuAssignment find_gpu_assignment(const std::vector<StepGpu>& step, const std::vector<int>& visible,
                                  const std::optional<std::string>& cuda_devices, bool confined) {
  if (visible.size() < step.size()) return {visible, false};
  const auto listed = cuda_devices ? listed_minors(step, *cuda_devices, confined) : std::nullopt;
  if (!listed || listed->empty()) return {};
  if (listed->size() == step.size()) return {{}, true};
  return {*listed, true};
}

std::vector<int> preferred_rows(const placement::Placement& plan, int local_rank,
                                const std::vector<PlacedGpu>& gpus) {
  if (gpus.empty()) return {local_rank};
  std::vector<int> wanted, within;
  for (std::size_t row = 0; row < plan.tasks.size(); ++row) {
    const auto& planned = plan.tasks[row].gpus;
    if (are_same(planned, gpus))
      wanted.push_back(static_cast<int>(row));
    else if (are_among(planned, gpus))
      within.push_back(static_cast<int>(row));
  }
  const auto begin_at_own = [&](std::vector<int>& rows) {
    if (rows.empty()) return;
    auto first = std::find(rows.begin(), rows.end(), local_rank);
    if (first == rows.end()) first = rows.begin() + local_rank % static_cast<int>(rows.size());
    std::rotate(rows.begin(), first, rows.end());
  };
  begin_at_own(wanted);
  begin_at_own(within);
  wanted.insert(wanted.end(), within.begin(), within.end());
  wanted.push_back(local_rank);
  return wanted;
}

placement::TaskPlacement placement_for_gpus(const placement::Placement& plan, int row, int local_rank,
                                            const std::vector<PlacedGpu>& gpus) {
  placement::TaskPlacement task = plan.tasks.at(static_cast<std::size_t>(row));
  task.local_rank = local_rank;
  if (gpus.empty() || are_same(task.gpus, gpus)) return task;
  task.gpus = gpus;
  task.gpu_cpu = task.gpu_nic = placement::Distance::unknown;
  return task;
}

}  // namespace muster::spank
