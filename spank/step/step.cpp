// SPDX-License-Identifier: Apache-2.0
#include "step/step.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "gpus/cuda_indices.hpp"
#include "gpus/gpu_binding.hpp"
#include "gpus/gpu_assignment.hpp"
#include "gpus/isolation.hpp"
#include "log.hpp"
#include "placement/topology/read.hpp"
#include "slurm/binding.hpp"
#include "slurm/srun_command.hpp"

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
  auto request = request_for(step->node_, step->facts_, wish, step->gpus_);
  request.bound = step->bound_by_user();
  step->placement_ = placement::place(step->node_, request);
  step->leave_cpus_to_user();
  step->environment_ = TaskEnvironment(spank, step->facts_, step->wish_.parts, settings.profiles);
  step->tell(step->environment_.complaints());
  step->prepare_publication(spank);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  step->plan_milliseconds_ = took.count();
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
    if (first) log_to_user("muster: %s: %s", facts_.host.c_str(), line.c_str());
    log_to_node("muster: %s", line.c_str());
  }
}

void Step::find_gpus() {
  const auto instances = facts_.gpus.empty() ? std::vector<MigInstance>() : read_mig_instances();
  counted_ = counted_by_cuda(node_, instances);
  if (instances.empty())
    minors_ = minors_of(facts_.gpus);
  else
    find_instances(instances);
  gpus_.whole = addresses_of(minors_);
  for (const int minor : minors_) {
    const auto* gpu = node_.find_gpu(addresses_of({minor}).front());
    step_gpus_.push_back({gpu->pci, gpu->uuid, gpu->domain});
  }
  for (const auto& one : instances_) {
    const auto parent = addresses_of({one.gpu_minor}).front();
    gpus_.instances.push_back({one.label(), parent});
    step_gpus_.push_back({parent, one.label(), node_.find_gpu(parent)->domain, true});
  }
}

// What the tasks' GPUs will be, where --gpu-bind says it; should Slurm choose others, each task finds that
// out.
std::vector<std::vector<PciAddress>> Step::bound_by_user() const {
  if (minors_.empty() || !instances_.empty()) return {};
  std::vector<int> names = minors_;
  if (devices_confined(node_, minors_)) std::iota(names.begin(), names.end(), 0);
  std::vector<std::vector<PciAddress>> bound;
  for (const auto& places : bound_gpus(facts_.gpu_request.binding, facts_.local_tasks, names)
                                .value_or(std::vector<std::vector<int>>())) {
    std::vector<int> minors;
    for (const int place : places) minors.push_back(minors_[static_cast<std::size_t>(place)]);
    bound.push_back(addresses_of(minors));
  }
  return bound;
}

// Which instances of GPUs in MIG mode are the step's. Slurm gives them no file name; they are those that may
// be opened, if there are as many of them as Slurm says.
void Step::find_instances(const std::vector<MigInstance>& all) {
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

void Step::apply(spank_handle* spank) {
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

  const FoundGpus found = find_own(spank, local_rank);
  const auto task_index = static_cast<std::size_t>(local_rank);
  ClaimedRow claimed;
  claimed.rank = rank;
  claimed.row = claims_.claim(task_index, wanted_rows(placement_, local_rank, found.own));
  for (std::size_t i = 0; i < std::min(step_gpus_.size(), ClaimedRow::most_gpus); ++i)
    claimed.gpus[i] = is_among(step_gpus_[i], found.own);
  if (claims_.arrive(task_index, claimed)) publish(spank, found);
  if (rank == 0) warn(found);
  const placement::TaskPlacement task = row_with(placement_, claimed.row, local_rank, found.own);
  bind(task, rank);
  if (!wish_.parts.env) return;
  if (facts_.heterogeneous && facts_.components.empty() && rank == 0)
    log_to_user(
        "muster: Slurm does not tell the components of this heterogeneous step where rank 0 is, so "
        "MASTER_ADDR and MASTER_PORT are not set; set them, or start components as a heterogeneous job");
  environment_.apply(spank, environment_.decide(spank, task, rank, shown_to(task, found)), rank);
  if (wish_.parts.gpu && is_dealt_by_default(spank)) name_own_gpus(spank, task);
}

void Step::bind(const placement::TaskPlacement& task, int rank) const {
  const auto failed = [&](const std::string& what, int error) {
    const std::string text = "rank " + std::to_string(rank) + ": " + what + " (" + std::strerror(error) + ")";
    if (wish_.mode == Mode::strict) throw std::runtime_error(text);
    log_to_user("muster: %s: %s; Slurm's own binding stays", facts_.host.c_str(), text.c_str());
  };
  if (wish_.parts.cpu)
    if (const int error = bind_to_cpus(task.cpus); error != 0)
      failed("cannot be bound to CPUs " + task.cpus.to_list(), error);
  if (const int error = set_memory(wish_.parts.memory, task.memory); error != 0)
    failed("memory of NUMA domain " + std::to_string(task.memory.front()) + " cannot be asked for", error);
}

}  // namespace muster::spank
