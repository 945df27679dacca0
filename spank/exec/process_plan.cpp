// SPDX-License-Identifier: Apache-2.0
#include "exec/process_plan.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "exec/cpu_quota.hpp"
#include "exec/process_gpus.hpp"
#include "gpus/gpu_assignment.hpp"
#include "placement/topology/read.hpp"
#include "slurm/binding.hpp"
#include "step/read_task_environment.hpp"
#include "step/step_request.hpp"
#include "step/task_gpus.hpp"

namespace muster::spank {

namespace {

SlurmFacts make_facts(const ProcessRequest& request, const placement::Node& node) {
  SlurmFacts facts;
  facts.host = node.host;
  facts.local_tasks = request.local_size;
  facts.world_size = std::max(request.world_size, request.local_size);
  facts.cpus_requested = request.cpus_per_task;
  facts.cpus = request.cpus.empty() ? node.cpus() : request.cpus;
  facts.memory = request.memory;
  return facts;
}

/// The GPUs by the names that Slurm has for them.
std::vector<std::string> gpu_names(const ProcessGpus& gpus, int instances) {
  std::vector<std::string> names(static_cast<std::size_t>(instances), "MIG");
  for (const int minor : gpus.allotted) names.push_back(std::to_string(minor));
  return names;
}

TaskGpus find_own_gpus(const Step& step, const ProcessGpus& gpus, const placement::GetEnv& get_env) {
  TaskGpus found;
  found.openable = step.gpus.minors;
  found.replaceable = gpus.replaceable;
  found.unnamed = !step.gpus.instances.empty() && !get_env("CUDA_VISIBLE_DEVICES");
  for (const auto& gpu : step.gpus.all) {
    const int minor = step.node.find_gpu(gpu.pci)->minor;
    if (!gpu.mig && std::find(gpus.own.begin(), gpus.own.end(), minor) != gpus.own.end())
      found.own.push_back(gpu);
  }
  std::sort(found.own.begin(), found.own.end(), [](const auto& a, const auto& b) { return a.pci < b.pci; });
  return found;
}

/// More threads than these would be stopped for a part of each period.
int share_quota(const ProcessRequest& request) {
  const auto quota = read_cpu_quota(request.root);
  if (!quota) return 0;
  const double share = std::min(*quota / std::max(request.local_size, 1), double{CpuSet::limit});
  return std::max(static_cast<int>(share), 1);
}

void choose_task(ProcessPlan& plan, const GpuAccess& openable, const ProcessGpus& gpus, int rank,
                 const placement::GetEnv& get_env) {
  const Step& step = plan.step;
  const TaskGpus found = find_own_gpus(step, gpus, get_env);
  const int row = preferred_rows(step.placement, plan.task.local_rank, found.own).front();
  plan.task = placement_for_gpus(step.placement, row, plan.task.local_rank, found.own);
  for (auto& warning : gpu_warnings(step, found)) plan.warnings.push_back(std::move(warning));
  if (!step.options.parts.env) return;
  ShownGpus shown = choose_shown_gpus(step, plan.task, found);
  shown.openable = find_addresses(step.node, openable.minors);  // CUDA counts all of these
  plan.change = step.environment.decide(plan.task, rank, shown, get_env);
  plan.stale = placement::set_by_outer_step(get_env);
  for (const auto& variable : plan.change.set) plan.stale.erase(variable.name);
}

}  // namespace

ProcessPlan plan_process(const ProcessRequest& request, const StepOptions& options,
                         const placement::GetEnv& get_env) {
  ProcessPlan plan;
  Step& step = plan.step;
  step.options = options;
  step.node = placement::read_live(request.root);
  if (!request.cpus.empty() && !request.cpus.intersects(step.node.cpus()))
    throw std::runtime_error("none of the CPUs " + request.cpus.to_short_list() +
                             " is on this machine, which has " + step.node.cpus().to_short_list());
  step.facts = make_facts(request, step.node);
  const GpuAccess openable = find_openable_gpus(step.node, request.root);
  if (openable.instances > 0 && request.local_size > 1 && options.parts.gpu)
    throw std::runtime_error(
        "MIG instances cannot be divided between " + std::to_string(request.local_size) +
        " processes without Slurm: give each its CUDA_VISIBLE_DEVICES=MIG-UUID, and gpu=off here");
  const ProcessGpus gpus = openable.instances > 0
                               ? ProcessGpus{openable.minors, {}, false}
                               : choose_process_gpus(step.node, openable.minors, request.local_size,
                                                     options.tasks_per_gpu, get_env);
  step.facts.gpus = gpu_names(gpus, openable.instances);
  step.gpus = find_step_gpus(step.node, step.facts.gpus, request.root);
  step.placement = placement::place(step.node, make_request(step.node, step.facts, options, step.gpus.all));
  step.environment = read_task_environment(step.facts, options.parts, "", get_env, plan.warnings);
  step.environment.job.quota_cpus = share_quota(request);
  plan.task.local_rank = request.local_rank;
  choose_task(plan, openable, gpus, request.rank, get_env);
  return plan;
}

std::vector<std::string> apply_plan(const ProcessPlan& plan) {
  std::vector<std::string> problems;
  const auto& parts = plan.step.options.parts;
  const auto note = [&](const std::string& what, int error) {
    if (error != 0) problems.push_back(what + " (" + std::strerror(error) + ")");
  };
  if (parts.cpu)
    note("this process cannot be bound to CPUs " + plan.task.cpus.to_list(), bind_to_cpus(plan.task.cpus));
  if (!plan.task.memory.empty())
    note("memory of NUMA domain " + std::to_string(plan.task.memory.front()) + " cannot be requested",
         set_memory(parts.memory, plan.task.memory));
  for (const auto& variable : plan.change.set)
    note(variable.name + " cannot be set",
         setenv(variable.name.c_str(), variable.value.c_str(), 1) == 0 ? 0 : errno);
  for (const auto& name : plan.stale) unsetenv(name.c_str());
  return problems;
}

}  // namespace muster::spank
