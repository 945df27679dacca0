// SPDX-License-Identifier: Apache-2.0
// Which of the step's GPUs a task has, and which of them CUDA shows to it.
#include <algorithm>
#include <sstream>

#include "gpus/cuda_indices.hpp"
#include "gpus/isolation.hpp"
#include "log.hpp"
#include "step/step.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

bool Step::is_bound_by_default(spank_handle* spank) const {
  const auto marker = job_variable(spank, isolation_marker),
             binding = job_variable(spank, "SLURMD_TRES_BIND");
  return options_.parts.gpu && options_.parts.env && marker && binding &&
         bound_by_default(marker->c_str(), binding->c_str(), facts_.gpu_request.tasks_per_gpu);
}

Step::FoundGpus Step::find_task_gpus(spank_handle* spank, int local_rank) const {
  FoundGpus found = instances_.empty() ? find_whole_task_gpus(spank, local_rank) : find_task_instances(spank);
  const auto request = read_gpu_request([&](const std::string& name) { return job_variable(spank, name); });
  // Slurm leaves a task that is alone on its node all GPUs of the step, whatever --gpu-bind says.
  found.bound = request.bound && (facts_.local_tasks > 1 || request.per_task > 0 || request.shared);
  return found;
}

Step::FoundGpus Step::find_whole_task_gpus(spank_handle* spank, int local_rank) const {
  FoundGpus found;
  found.openable = allowed_minors(minors_);
  found.isolated = found.openable.size() < minors_.size();
  std::vector<StepGpu> step;
  for (std::size_t i = 0; i < minors_.size(); ++i) step.push_back({minors_[i], step_gpus_[i].uuid});
  GpuAssignment assignment = find_gpu_assignment(
      step, found.openable, job_variable(spank, "CUDA_VISIBLE_DEVICES"), devices_confined(node_, minors_));
  found.replaceable = assignment.set_by_slurm;
  const auto& planned = placement_.tasks.at(static_cast<std::size_t>(local_rank)).gpus;
  if (assignment.set_by_slurm && is_bound_by_default(spank) && assignment.minors.size() == planned.size())
    return found;
  for (const int minor : assignment.minors) {
    const auto at = std::find(minors_.begin(), minors_.end(), minor);
    found.own.push_back(step_gpus_[static_cast<std::size_t>(at - minors_.begin())]);
  }
  std::sort(found.own.begin(), found.own.end(), [](const auto& a, const auto& b) { return a.pci < b.pci; });
  return found;
}

Step::FoundGpus Step::find_task_instances(spank_handle* spank) const {
  FoundGpus found;
  found.openable = allowed_minors(minors_);
  const auto cuda_devices = job_variable(spank, "CUDA_VISIBLE_DEVICES");
  std::size_t usable = 0;
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    if (!can_open(instances_[i])) continue;
    ++usable;
    found.own.push_back(step_gpus_[minors_.size() + i]);
  }
  found.isolated = usable < instances_.size();
  found.unnamed = !cuda_devices;
  if (found.isolated || !cuda_devices || !minors_.empty()) {
    if (!found.isolated) found.own.clear();
    return found;
  }
  // Slurm's choice is in CUDA_VISIBLE_DEVICES. A name has the same index in the step's list as its instance.
  found.own.clear();
  std::istringstream names(*cuda_devices);
  for (std::string name; std::getline(names, name, ',');) {
    const auto at = std::find(facts_.cuda_devices.begin(), facts_.cuda_devices.end(), name);
    const auto index = static_cast<std::size_t>(at - facts_.cuda_devices.begin());
    if (index < instances_.size()) found.own.push_back(step_gpus_[index]);
  }
  found.replaceable = found.own.size() == instances_.size();
  if (found.replaceable) found.own.clear();
  return found;
}

VisibleChoice Step::choose_visibility(const FoundGpus& found) const {
  return choose_visible({options_.visible, found.bound, found.isolated, !found.own.empty(), found.unnamed},
                        placement_);
}

ShownGpus Step::choose_shown_gpus(const placement::TaskPlacement& task, const FoundGpus& found) const {
  ShownGpus shown;
  const auto cuda_addresses = find_addresses(allowed_minors(cuda_minors_));
  shown.by_index = !cuda_addresses.empty() && are_numbers(facts_.cuda_devices);
  shown.openable = cuda_addresses.empty() ? find_addresses(found.openable) : cuda_addresses;
  shown.replaceable = found.replaceable;
  const bool own = choose_visibility(found).visible == Visible::own;
  std::vector<placement::PlacedGpu> list = own ? task.gpus : in_rank_order(placement_, step_gpus_);
  for (auto& gpu : list) {
    if (!gpu.mig) continue;
    // CUDA's name of an instance is known only from Slurm, by its index in the step's list.
    if (!found.replaceable || facts_.cuda_devices.size() != step_gpus_.size() || !minors_.empty())
      return shown;
    const auto at = std::find_if(step_gpus_.begin(), step_gpus_.end(),
                                 [&](const auto& one) { return one.uuid == gpu.uuid; });
    gpu.uuid = facts_.cuda_devices[static_cast<std::size_t>(at - step_gpus_.begin())];
  }
  if (!own)
    for (int local = 0; local < task.local_rank; ++local)
      shown.first_own += static_cast<int>(placement_.tasks[static_cast<std::size_t>(local)].gpus.size());
  shown.list = std::move(list);
  return shown;
}

// Called in one task of the step, not on each of a thousand nodes.
void Step::warn(const FoundGpus& found) const {
  if (found.isolated && facts_.local_tasks > 1 && instances_.empty())
    log_to_user("muster: %s", isolation_notice(facts_.host, static_cast<int>(found.openable.size()),
                                               static_cast<int>(minors_.size()))
                                  .c_str());
  const std::string problem = options_.parts.gpu ? choose_visibility(found).problem : "";
  if (!problem.empty()) log_to_user("muster: %s", problem.c_str());
}

// Slurm's own lists name the GPUs that Slurm would have assigned to this task.
void Step::set_slurm_gpu_lists(spank_handle* spank, const placement::TaskPlacement& task) const {
  std::string minors;
  for (const auto& gpu : task.gpus) {
    if (!minors.empty()) minors += ',';
    minors += std::to_string(node_.find_gpu(gpu.pci)->minor);
  }
  for (const char* name : {"SLURM_STEP_GPUS", "GPU_DEVICE_ORDINAL"})
    if (job_variable(spank, name)) spank_setenv(spank, name, minors.c_str(), 1);
}

}  // namespace muster::spank
