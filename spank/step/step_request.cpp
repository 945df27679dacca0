// SPDX-License-Identifier: Apache-2.0
#include "step/step_request.hpp"

#include <algorithm>

namespace muster::spank {

namespace {

using placement::Node;

int cores_among(const Node& node, const CpuSet& cpus) {
  return static_cast<int>(std::count_if(node.cores.begin(), node.cores.end(),
                                        [&](const auto& core) { return core.cpus.intersects(cpus); }));
}

// The CPUs that Slurm gave the step. slurmstepd may run within the step's cores (cgroup v1), the job's (v2)
// or anywhere (no core confinement). Slurm also reports which cores it counted for the step, in the order of
// the machine's cores, and that narrows the larger two.
CpuSet allocated_cpus(const Node& node, const SlurmFacts& facts) {
  CpuSet own = facts.cpus & node.cpus();
  if (!facts.step_cores || cores_among(node, own) <= facts.step_cores->size()) return own;
  CpuSet counted;
  for (const int core : facts.step_cores->to_vector())
    if (core < static_cast<int>(node.cores.size()))
      counted |= node.cores[static_cast<std::size_t>(core)].cpus;
  counted &= own;
  return counted.empty() ? own : counted;
}

// 0 without a request: a task may then use what its GPU's own domain has for it. The job's request may be for
// more than this step has.
int cpus_per_task(const SlurmFacts& facts, const CpuSet& cpus) {
  if (facts.cpus_requested > 0 && long{facts.cpus_requested} * facts.local_tasks <= cpus.size())
    return facts.cpus_requested;
  return facts.cpus_per_task > 1 ? facts.cpus_per_task : 0;
}

}  // namespace

placement::Request make_request(const Node& node, const SlurmFacts& facts, const StepOptions& options,
                                const std::vector<placement::PlacedGpu>& gpus) {
  placement::Request request;
  request.tasks = facts.local_tasks;
  request.cpus = allocated_cpus(node, facts);
  request.memory = facts.memory;
  for (const auto& gpu : gpus) {
    if (gpu.mig)
      request.mig.push_back({gpu.uuid, gpu.pci});
    else
      request.gpus.push_back(gpu.pci);
  }
  const int count = static_cast<int>(gpus.size());
  // The count may be the job's although this step requested another; the GPUs that Slurm allocated decide.
  const int per_task = facts.gpu_request.per_task;
  if (count > 0 && long{per_task} * facts.local_tasks <= count && count >= facts.local_tasks)
    request.gpus_per_task = per_task;
  else if (count > 0 && count < facts.local_tasks)
    request.gpus_per_task = 1;  // place() rejects this with the figures, unless tasks may share GPUs
  request.tasks_per_gpu = std::max(options.tasks_per_gpu, 1);
  // Shards, MPS and --ntasks-per-gpu make tasks share GPUs, and Slurm has assigned them accordingly.
  if (options.tasks_per_gpu == 0 && facts.gpu_request.shared && count > 0)
    request.tasks_per_gpu = std::max(1, (facts.local_tasks + count - 1) / count);
  request.cpus_per_task = cpus_per_task(facts, request.cpus);
  request.hardware_threads =
      long{request.cpus_per_task} * facts.local_tasks > cores_among(node, request.cpus);
  return request;
}

}  // namespace muster::spank
