// SPDX-License-Identifier: Apache-2.0
#include "step.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "binding.hpp"
#include "gpu_choice.hpp"
#include "isolation.hpp"
#include "placement/read.hpp"
#include "srun_command.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

namespace {

using placement::Node;
using placement::PciAddress;

Node read_node(const Settings& settings, TopologyCache& cache) {
  Node node = cache.read();
  if (!settings.topology.empty())
    placement::override_locality(node, placement::read_nccl_locality(settings.topology));
  return node;
}

// N of /dev/nvidiaN for each, as Slurm names GPUs that are not in MIG mode.
std::vector<int> minors_of(const std::vector<std::string>& names) {
  std::vector<int> minors;
  for (const auto& name : names) {
    const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || name.size() > 6)
      throw std::runtime_error("Slurm names the step's GPU '" + name +
                               "', which is no number N of /dev/nvidiaN, and no GPU is in MIG mode");
    minors.push_back(std::stoi(name));
  }
  std::sort(minors.begin(), minors.end());
  return minors;
}

}  // namespace

Step::Step(SlurmFacts facts, const Wish& wish) : facts_(std::move(facts)), wish_(wish) {}

std::unique_ptr<Step> Step::plan(spank_handle* spank, const Wish& wish, const Settings& settings,
                                 TopologyCache& cache) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Step> step(new Step(read_slurm_facts(spank), wish));
  if (!wish.asked && step->facts_.gpus.empty()) return nullptr;
  step->node_ = read_node(settings, cache);
  step->node_.host = step->facts_.host;
  step->find_gpus();
  step->placement_ = placement::place(step->node_, request_for(step->node_, step->facts_, wish, step->gpus_));
  step->leave_cpus_to_user();
  step->environment_ = TaskEnvironment(spank, step->facts_, step->wish_.parts, settings.profiles);
  step->tell(step->environment_.complaints());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (wish.report || wish.explain || wish.json) step->publish(spank, took.count());
  return step;
}

void Step::leave_cpus_to_user() {
  if (facts_.cpu_binding.empty() && wish_.parts.cpu) return;
  const std::string why = wish_.parts.cpu ? "--cpu-bind=" + facts_.cpu_binding : "cpu=off";
  wish_.parts.cpu = false;
  placement_.warnings.push_back("the tasks' CPUs are not those of the table: Slurm's binding stays (" + why +
                                ")");
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

// Which GPUs, and which instances of those in MIG mode, are the step's. Of instances Slurm gives no file
// name; they are those that may be opened, if there are as many of them as Slurm says.
void Step::find_gpus() {
  const auto all = facts_.gpus.empty() ? std::vector<MigInstance>() : read_mig_instances();
  if (all.empty()) {
    minors_ = minors_of(facts_.gpus);
    gpus_.whole = addresses_of(minors_);
    return;
  }
  const auto split = [&](int minor) {
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.gpu_minor == minor; });
  };
  for (const auto& gpu : node_.gpus)
    if (gpu.minor >= 0 && !split(gpu.minor) && allowed_minors({gpu.minor}).size() == 1)
      minors_.push_back(gpu.minor);
  std::copy_if(all.begin(), all.end(), std::back_inserter(instances_),
               [](const auto& one) { return may_use(one); });
  if (instances_.size() + minors_.size() != facts_.gpus.size())
    throw std::runtime_error(
        "Slurm gave the step " + std::to_string(facts_.gpus.size()) + " GPUs of a node in MIG mode, but " +
        std::to_string(instances_.size()) + " MIG instances and " + std::to_string(minors_.size()) +
        " whole GPUs may be opened, so which are the step's cannot be told (ConstrainDevices=yes "
        "in cgroup.conf?)");
  gpus_.whole = addresses_of(minors_);
  for (const auto& one : instances_)
    gpus_.instances.push_back({one.label(), addresses_of({one.gpu_minor}).front()});
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

std::vector<std::string> Step::own_instances(const std::optional<std::string>& cuda_devices) const {
  std::vector<std::string> own;
  for (const auto& one : instances_)
    if (may_use(one)) own.push_back(one.label());
  if (own.size() < instances_.size() || !cuda_devices || !minors_.empty()) return own;
  // Not isolated: Slurm's choice is in CUDA_VISIBLE_DEVICES, at the same places as in the step's.
  own.clear();
  std::istringstream names(*cuda_devices);
  for (std::string name; std::getline(names, name, ',');) {
    const auto at = std::find(facts_.cuda_devices.begin(), facts_.cuda_devices.end(), name);
    const auto index = static_cast<std::size_t>(at - facts_.cuda_devices.begin());
    if (index < instances_.size()) own.push_back(instances_[index].label());
  }
  return own;
}

placement::TaskPlacement Step::row_of(spank_handle* spank, int local_rank, int rank,
                                      const std::vector<int>& visible, const GpuChoice& choice) const {
  if (!instances_.empty())
    return row_with(placement_, local_rank, own_instances(job_variable(spank, "CUDA_VISIBLE_DEVICES")));
  const placement::TaskPlacement task =
      row_for(placement_, node_, local_rank, addresses_of(choice.minors),
              deals_each_gpu_once(job_variable(spank, "SLURMD_TRES_BIND").value_or("")));
  // Said by one task of the step, not on each of a thousand nodes.
  if (rank == 0 && visible.size() < minors_.size() && facts_.local_tasks > 1)
    slurm_spank_log("muster: %s", isolation_notice(facts_.host, static_cast<int>(visible.size()),
                                                   static_cast<int>(minors_.size()))
                                      .c_str());
  if (rank == 0 && (wish_.report || wish_.explain) && !choice.minors.empty())
    slurm_spank_log(
        "muster: Slurm bound the tasks to GPUs itself, so a rank may have another GPU than in the table; the "
        "cores, memory and NIC of a GPU's row go to the task that has the GPU (MUSTER_GPUS tells)");
  return task;
}

bool Step::is_dealt_by_default(spank_handle* spank) const {
  const auto mark = job_variable(spank, lift_mark), binding = job_variable(spank, "SLURMD_TRES_BIND");
  return wish_.parts.gpu && wish_.parts.env && mark && binding &&
         dealt_by_default(mark->c_str(), binding->c_str());
}

void Step::apply(spank_handle* spank) const {
  int local_rank = -1;
  if (spank_get_item(spank, S_TASK_ID, &local_rank) != ESPANK_SUCCESS || local_rank < 0 ||
      local_rank >= facts_.local_tasks)
    throw std::runtime_error("Slurm does not say which task this is");
  // Slurm's items leave out the offset of a heterogeneous step's component, its environment does not.
  const std::string said = job_variable(spank, "SLURM_PROCID").value_or("");
  const int rank =
      said == "0" ? 0 : std::max(count_of(said), facts_.ranks[static_cast<std::size_t>(local_rank)]);
  if (rank < 0)
    throw std::runtime_error("Slurm does not say the rank of local task " + std::to_string(local_rank));

  const std::vector<int> visible = allowed_minors(minors_);
  GpuChoice choice = gpu_choice(minors_, visible, job_variable(spank, "CUDA_VISIBLE_DEVICES"),
                                devices_confined(node_, minors_));
  if (choice.set_by_slurm && is_dealt_by_default(spank) &&
      choice.minors.size() == placement_.tasks.at(static_cast<std::size_t>(local_rank)).gpus.size())
    choice.minors.clear();
  const placement::TaskPlacement task = row_of(spank, local_rank, rank, visible, choice);
  bind(task, rank);
  if (!wish_.parts.env) return;
  if (facts_.heterogeneous && facts_.components.empty() && rank == 0)
    slurm_spank_log(
        "muster: Slurm does not tell the components of this heterogeneous step where rank 0 is, so "
        "MASTER_ADDR and MASTER_PORT are not set; set them, or start components as a heterogeneous job");
  environment_.apply(
      spank, environment_.decide(spank, task, rank, addresses_of(visible), choice.set_by_slurm), rank);
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
