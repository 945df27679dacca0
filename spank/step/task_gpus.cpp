// SPDX-License-Identifier: Apache-2.0
#include "step/task_gpus.hpp"

#include <algorithm>
#include <sstream>

#include "gpus/gpu_assignment.hpp"
#include "gpus/isolation.hpp"

namespace muster::spank {

namespace {

void find_whole_gpus(const Step& step, const TaskFacts& task, TaskGpus& found) {
  const auto& [minors, instances, cuda_minors, all] = step.gpus;
  found.isolated = found.openable.size() < minors.size();
  std::vector<StepGpu> names;
  for (std::size_t i = 0; i < minors.size(); ++i) names.push_back({minors[i], all[i].uuid});
  const GpuAssignment assignment =
      find_gpu_assignment(names, found.openable, task.cuda_devices, devices_confined(step.node, minors));
  found.replaceable = assignment.set_by_slurm;
  const auto& planned = step.placement.tasks.at(static_cast<std::size_t>(task.local_rank)).gpus;
  if (assignment.set_by_slurm && found.bound_by_default && assignment.minors.size() == planned.size()) return;
  for (const int minor : assignment.minors) {
    const auto at = std::find(minors.begin(), minors.end(), minor);
    found.own.push_back(all[static_cast<std::size_t>(at - minors.begin())]);
  }
  std::sort(found.own.begin(), found.own.end(), [](const auto& a, const auto& b) { return a.pci < b.pci; });
}

void find_instances(const Step& step, const TaskFacts& task, TaskGpus& found) {
  const auto& [minors, instances, cuda_minors, all] = step.gpus;
  std::size_t usable = 0;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (!can_open(instances[i])) continue;
    ++usable;
    found.own.push_back(all[minors.size() + i]);
  }
  found.isolated = usable < instances.size();
  found.unnamed = !task.cuda_devices;
  if (found.isolated) return;
  found.own.clear();
  if (!task.cuda_devices || !minors.empty()) return;
  // Slurm's choice is in CUDA_VISIBLE_DEVICES. A name has the same index in the step's list as its instance.
  std::istringstream names(*task.cuda_devices);
  for (std::string name; std::getline(names, name, ',');) {
    const auto& of_step = step.facts.cuda_devices;
    const auto index =
        static_cast<std::size_t>(std::find(of_step.begin(), of_step.end(), name) - of_step.begin());
    if (index < instances.size()) found.own.push_back(all[index]);
  }
  found.replaceable = found.own.size() == instances.size();
  if (found.replaceable) found.own.clear();
}

}  // namespace

TaskGpus find_task_gpus(const Step& step, const TaskFacts& task) {
  TaskGpus found;
  found.openable = allowed_minors(step.gpus.minors);
  found.bound_by_default = step.options.parts.gpu && step.options.parts.env && task.isolation_marker &&
                           task.gpu_binding &&
                           bound_by_default(task.isolation_marker->c_str(), task.gpu_binding->c_str(),
                                            step.facts.gpu_request.tasks_per_gpu);
  if (step.gpus.instances.empty())
    find_whole_gpus(step, task, found);
  else
    find_instances(step, task, found);
  // Slurm leaves a task that is alone on its node all GPUs of the step, whatever --gpu-bind says.
  const GpuRequest& request = task.gpu_request;
  found.bound = request.bound && (step.facts.local_tasks > 1 || request.per_task > 0 || request.shared);
  return found;
}

VisibleChoice choose_visibility(const Step& step, const TaskGpus& found) {
  return choose_visible(
      {step.options.visible, found.bound, found.isolated, !found.own.empty(), found.unnamed}, step.placement);
}

ShownGpus choose_shown_gpus(const Step& step, const placement::TaskPlacement& task, const TaskGpus& found) {
  const auto& all = step.gpus.all;
  const auto& cuda_devices = step.facts.cuda_devices;
  ShownGpus shown;
  const auto cuda_addresses = find_addresses(step.node, allowed_minors(step.gpus.cuda_minors));
  shown.by_index = !cuda_addresses.empty() && are_numbers(cuda_devices);
  shown.openable = cuda_addresses.empty() ? find_addresses(step.node, found.openable) : cuda_addresses;
  shown.replaceable = found.replaceable;
  const bool own = choose_visibility(step, found).visible == Visible::own;
  std::vector<placement::PlacedGpu> list = own ? task.gpus : in_rank_order(step.placement, all);
  for (auto& gpu : list) {
    if (!gpu.mig) continue;
    // CUDA's name of an instance is known only from Slurm, by its index in the step's list.
    if (!found.replaceable || cuda_devices.size() != all.size() || !step.gpus.minors.empty()) return shown;
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.uuid == gpu.uuid; });
    gpu.uuid = cuda_devices[static_cast<std::size_t>(at - all.begin())];
  }
  if (!own)
    for (int local = 0; local < task.local_rank; ++local)
      shown.first_own += static_cast<int>(step.placement.tasks[static_cast<std::size_t>(local)].gpus.size());
  shown.list = std::move(list);
  return shown;
}

std::vector<std::string> gpu_warnings(const Step& step, const TaskGpus& found) {
  std::vector<std::string> warnings;
  if (found.isolated && step.facts.local_tasks > 1 && step.gpus.instances.empty())
    warnings.push_back(isolation_notice(step.facts.host, static_cast<int>(found.openable.size()),
                                        static_cast<int>(step.gpus.minors.size())));
  if (auto problem = choose_visibility(step, found).problem; step.options.parts.gpu && !problem.empty())
    warnings.push_back(std::move(problem));
  return warnings;
}

}  // namespace muster::spank
