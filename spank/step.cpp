// SPDX-License-Identifier: Apache-2.0
#include "step.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "binding.hpp"
#include "gpu_choice.hpp"
#include "isolation.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

namespace {

using placement::CpuSet;
using placement::Node;
using placement::PciAddress;

int cores_among(const Node& node, const CpuSet& cpus) {
  return static_cast<int>(std::count_if(node.cores.begin(), node.cores.end(),
                                        [&](const auto& core) { return core.cpus.intersects(cpus); }));
}

// The CPUs that Slurm gave the step. slurmstepd may run within the step's cores (cgroup v1), the job's (v2)
// or anywhere (no core confinement); Slurm also says which cores it counted for the step, in the order of the
// machine's cores, and that narrows the larger two.
CpuSet allotted_cpus(const Node& node, const SlurmFacts& facts) {
  const CpuSet own = facts.cpus & node.cpus();
  if (!facts.step_cores || cores_among(node, own) <= facts.step_cores->size()) return own;
  CpuSet counted;
  for (const int core : facts.step_cores->to_vector())
    if (core < static_cast<int>(node.cores.size()))
      counted |= node.cores[static_cast<std::size_t>(core)].cpus;
  counted &= own;
  return counted.empty() ? own : counted;
}

placement::Request request_for(const Node& node, const SlurmFacts& facts, std::vector<PciAddress> gpus) {
  placement::Request request;
  request.tasks = facts.local_tasks;
  request.cpus = allotted_cpus(node, facts);
  request.memory = facts.memory;
  const int count = static_cast<int>(gpus.size());
  // SLURM_GPUS_PER_TASK may be left over from the job when this step asked otherwise; what Slurm allotted
  // decides.
  if (count > 0 && facts.gpus_per_task * facts.local_tasks <= count && count >= facts.local_tasks)
    request.gpus_per_task = facts.gpus_per_task;
  else if (count > 0 && count < facts.local_tasks)
    request.gpus_per_task = 1;  // place() refuses this with the figures
  request.gpus = std::move(gpus);
  request.hardware_threads = facts.cpus_per_task * facts.local_tasks > cores_among(node, request.cpus);
  return request;
}

}  // namespace

Step::Step(SlurmFacts facts, const Wish& wish) : facts_(std::move(facts)), wish_(wish) {}

std::unique_ptr<Step> Step::plan(spank_handle* spank, const Wish& wish, const Settings& settings,
                                 TopologyCache& cache) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Step> step(new Step(read_slurm_facts(spank), wish));
  if (!wish.asked && step->facts_.gpu_minors.empty()) return nullptr;
  step->node_ = cache.read();
  step->node_.host = step->facts_.host;
  step->placement_ = placement::place(
      step->node_, request_for(step->node_, step->facts_, step->addresses_of(step->facts_.gpu_minors)));
  step->environment_ = TaskEnvironment(spank, step->facts_, wish.parts, settings.profiles);
  step->tell(step->environment_.complaints());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (wish.report || wish.explain || wish.json) step->publish(spank, took.count());
  return step;
}

void Step::tell(const std::vector<std::string>& complaints) const {
  if (complaints.empty()) return;
  if (wish_.mode == Mode::strict) throw std::runtime_error(complaints.front());
  // To the user once a step, to the administrator in every node's slurmd log.
  const bool first = std::find(facts_.ranks.begin(), facts_.ranks.end(), 0) != facts_.ranks.end();
  for (const auto& line : complaints) {
    if (first) slurm_spank_log("muster: %s: %s", facts_.host.c_str(), line.c_str());
    slurm_info("muster: %s", line.c_str());
  }
}

std::vector<PciAddress> Step::addresses_of(const std::vector<int>& minors) const {
  std::vector<PciAddress> addresses;
  for (const int minor : minors) {
    const auto gpu = std::find_if(node_.gpus.begin(), node_.gpus.end(),
                                  [&](const auto& one) { return one.minor == minor; });
    if (gpu == node_.gpus.end())
      throw std::runtime_error("Slurm gave the step /dev/nvidia" + std::to_string(minor) +
                               ", but the NVIDIA driver lists no such GPU in /proc/driver/nvidia/gpus; is "
                               "the driver loaded, and does "
                               "gres.conf name the right files?");
    addresses.push_back(gpu->pci);
  }
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

void Step::apply(spank_handle* spank) const {
  int local_rank = -1;
  if (spank_get_item(spank, S_TASK_ID, &local_rank) != ESPANK_SUCCESS || local_rank < 0 ||
      local_rank >= facts_.local_tasks)
    throw std::runtime_error("Slurm does not say which task this is");
  const int rank = facts_.ranks[static_cast<std::size_t>(local_rank)];

  // Slurm's items leave out the offset of a heterogeneous step's component, its environment does not.
  if (job_variable(spank, "SLURM_PROCID").value_or(std::to_string(rank)) != std::to_string(rank))
    throw std::runtime_error(
        "heterogeneous steps (srun a : b) are not placed by this version; use --muster=off");

  const std::vector<int> visible = allowed_minors(facts_.gpu_minors);
  const auto cuda_devices = job_variable(spank, "CUDA_VISIBLE_DEVICES");
  const GpuChoice choice =
      gpu_choice(facts_.gpu_minors, visible, cuda_devices, devices_confined(node_, facts_.gpu_minors));
  const placement::TaskPlacement task =
      row_for(placement_, node_, local_rank, addresses_of(choice.minors),
              deals_each_gpu_once(job_variable(spank, "SLURMD_TRES_BIND").value_or("")));

  // Said by one task of the step, not on each of a thousand nodes.
  if (rank == 0 && visible.size() < facts_.gpu_minors.size() && facts_.local_tasks > 1)
    slurm_spank_log("muster: %s", isolation_notice(facts_.host, static_cast<int>(visible.size()),
                                                   static_cast<int>(facts_.gpu_minors.size()))
                                      .c_str());
  const auto& planned = placement_.tasks[static_cast<std::size_t>(local_rank)];
  if (wish_.report && !task.gpus.empty() && task.gpus.front().pci != planned.gpus.front().pci)
    slurm_spank_log(
        "muster: rank %d on %s: Slurm bound this task to GPU %s; its cores (%s) and memory follow", rank,
        facts_.host.c_str(), task.gpus.front().pci.to_string().c_str(), task.cpus.to_list().c_str());
  bind(task, rank);
  if (!wish_.parts.env) return;
  environment_.apply(spank, environment_.decide(spank, task, rank, addresses_of(visible), choice.set_by_slurm),
                     rank);
}

void Step::bind(const placement::TaskPlacement& task, int rank) const {
  const auto failed = [&](const std::string& what, int error) {
    const std::string text = "rank " + std::to_string(rank) + ": " + what + " (" + std::strerror(error) + ")";
    if (wish_.mode == Mode::strict) throw std::runtime_error(text);
    slurm_spank_log("muster: %s: %s; Slurm's own binding stays", facts_.host.c_str(), text.c_str());
  };
  if (wish_.parts.cpu)
    if (const int error = bind_to_cpus(task.cpus); error != 0)
      failed("cannot be bound to CPUs " + task.cpus.to_list(), error);
  if (const int error = set_memory(wish_.parts.memory, task.memory); error != 0)
    failed("memory of NUMA domain " + std::to_string(task.memory.front()) + " cannot be asked for", error);
}

}  // namespace muster::spank
