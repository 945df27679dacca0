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
#include "gpus/gpu_assignment.hpp"
#include "gpus/gpu_binding.hpp"
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
std::vector<int> parse_minors(const std::vector<std::string>& gpu_numbers) {
  std::vector<int> minors;
  for (const auto& name : gpu_numbers) {
    const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || name.size() > 6)
      throw std::runtime_error("Slurm names the step's GPU '" + name +
                               "', which is not the N of a /dev/nvidiaN, and no GPU is in MIG mode");
    minors.push_back(std::stoi(name));
  }
  std::sort(minors.begin(), minors.end());
  return minors;
}

}  // namespace

Step::Step(SlurmFacts facts, const StepOptions& options) : facts_(std::move(facts)), options_(options) {}

std::unique_ptr<Step> Step::plan(spank_handle* spank, const StepOptions& options, const Settings& settings,
                                 TopologyCache& cache) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Step> step(new Step(read_slurm_facts(spank), options));
  if (!options.explicitly_requested && step->facts_.gpus.empty()) return nullptr;
  step->node_ = read_node(settings, cache);
  step->node_.host = step->facts_.host;
  step->find_gpus();
  auto request = make_request(step->node_, step->facts_, options, step->gpus_);
  request.bound = step->bound_by_user();
  step->placement_ = placement::place(step->node_, request);
  step->leave_cpus_to_user();
  step->environment_ = TaskEnvironment(spank, step->facts_, step->options_.parts, settings.profiles);
  step->log_warnings(step->environment_.warnings());
  step->prepare_outputs(spank);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  step->plan_milliseconds_ = took.count();
  return step;
}

void Step::leave_cpus_to_user() {
  if (facts_.cpu_binding.empty() && options_.parts.cpu) return;
  const std::string why = options_.parts.cpu ? "--cpu-bind=" + facts_.cpu_binding : "cpu=off";
  options_.parts.cpu = false;
  placement_.warnings.push_back("the tasks' CPUs are not those of the table: Slurm's binding stays (" + why +
                                ")");
}

void Step::log_warnings(const std::vector<std::string>& warnings) const {
  if (warnings.empty()) return;
  if (options_.mode == Mode::strict) throw std::runtime_error(warnings.front());
  // To the user once for the step, to the administrator in every node's slurmd log.
  const bool first = std::find(facts_.ranks.begin(), facts_.ranks.end(), 0) != facts_.ranks.end();
  for (const auto& line : warnings) {
    if (first) log_to_user("muster: %s: %s", facts_.host.c_str(), line.c_str());
    log_to_node("muster: %s", line.c_str());
  }
}

void Step::find_gpus() {
  const auto instances = facts_.gpus.empty() ? std::vector<MigInstance>() : read_mig_instances();
  cuda_minors_ = find_cuda_minors(node_, instances);
  if (instances.empty())
    minors_ = parse_minors(facts_.gpus);
  else
    find_instances(instances);
  gpus_.whole = find_addresses(minors_);
  for (const int minor : minors_) {
    const auto* gpu = node_.find_gpu(find_addresses({minor}).front());
    step_gpus_.push_back({gpu->pci, gpu->uuid, gpu->domain});
  }
  for (const auto& one : instances_) {
    const auto parent = find_addresses({one.gpu_minor}).front();
    gpus_.instances.push_back({one.label(), parent});
    step_gpus_.push_back({parent, one.label(), node_.find_gpu(parent)->domain, true});
  }
}

// The GPUs that --gpu-bind gives the tasks; if Slurm chooses others, each task finds that out.
std::vector<std::vector<PciAddress>> Step::bound_by_user() const {
  if (minors_.empty() || !instances_.empty()) return {};
  std::vector<int> gpu_numbers = minors_;
  if (devices_confined(node_, minors_)) std::iota(gpu_numbers.begin(), gpu_numbers.end(), 0);
  std::vector<std::vector<PciAddress>> bound;
  for (const auto& indices : parse_gpu_binding(facts_.gpu_request.binding, facts_.local_tasks, gpu_numbers)
                                 .value_or(std::vector<std::vector<int>>())) {
    std::vector<int> minors;
    for (const int place : indices) minors.push_back(minors_[static_cast<std::size_t>(place)]);
    bound.push_back(find_addresses(minors));
  }
  return bound;
}

// Which instances of GPUs in MIG mode are the step's. Slurm does not name their files; they are those that
// may be opened, if their number is the one that Slurm reports.
void Step::find_instances(const std::vector<MigInstance>& all) {
  const auto split = [&](int minor) {
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.gpu_minor == minor; });
  };
  for (const auto& gpu : node_.gpus)
    if (gpu.minor >= 0 && !split(gpu.minor) && allowed_minors({gpu.minor}).size() == 1)
      minors_.push_back(gpu.minor);
  std::copy_if(all.begin(), all.end(), std::back_inserter(instances_),
               [](const auto& one) { return can_open(one); });
  if (instances_.size() + minors_.size() != facts_.gpus.size())
    throw std::runtime_error(
        "Slurm gave the step " + std::to_string(facts_.gpus.size()) + " GPUs of a node in MIG mode, but " +
        std::to_string(instances_.size()) + " MIG instances and " + std::to_string(minors_.size()) +
        " whole GPUs may be opened, so it is not known which are the step's (ConstrainDevices=yes "
        "in cgroup.conf?)");
}

std::vector<PciAddress> Step::find_addresses(const std::vector<int>& minors) const {
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
    throw std::runtime_error("Slurm does not report which task this is");
  // In a heterogeneous step SPANK's items lack the offset of the component, but the environment includes it.
  const std::string procid = job_variable(spank, "SLURM_PROCID").value_or("");
  const int rank =
      procid == "0" ? 0 : std::max(parse_count(procid), facts_.ranks[static_cast<std::size_t>(local_rank)]);
  if (rank < 0)
    throw std::runtime_error("Slurm does not report the rank of local task " + std::to_string(local_rank));

  const FoundGpus found = find_task_gpus(spank, local_rank);
  const auto task_index = static_cast<std::size_t>(local_rank);
  ClaimedRow claimed;
  claimed.rank = rank;
  claimed.row = claims_.claim(task_index, preferred_rows(placement_, local_rank, found.own));
  for (std::size_t i = 0; i < std::min(step_gpus_.size(), ClaimedRow::most_gpus); ++i)
    claimed.gpus[i] = is_among(step_gpus_[i], found.own);
  if (claims_.arrive(task_index, claimed)) write_outputs(spank, found);
  if (rank == 0) warn(found);
  const placement::TaskPlacement task = placement_for_gpus(placement_, claimed.row, local_rank, found.own);
  bind(task, rank);
  if (!options_.parts.env) return;
  if (facts_.heterogeneous && facts_.components.empty() && rank == 0)
    log_to_user(
        "muster: Slurm does not pass rank 0's host to the components of this heterogeneous step, so "
        "MASTER_ADDR and MASTER_PORT are not set; set them, or start components as a heterogeneous job");
  environment_.apply(spank, environment_.decide(spank, task, rank, choose_shown_gpus(task, found)), rank);
  if (options_.parts.gpu && is_bound_by_default(spank)) set_slurm_gpu_lists(spank, task);
}

void Step::bind(const placement::TaskPlacement& task, int rank) const {
  const auto failed = [&](const std::string& what, int error) {
    const std::string text = "rank " + std::to_string(rank) + ": " + what + " (" + std::strerror(error) + ")";
    if (options_.mode == Mode::strict) throw std::runtime_error(text);
    log_to_user("muster: %s: %s; Slurm's own binding stays", facts_.host.c_str(), text.c_str());
  };
  if (options_.parts.cpu)
    if (const int error = bind_to_cpus(task.cpus); error != 0)
      failed("cannot be bound to CPUs " + task.cpus.to_list(), error);
  if (const int error = set_memory(options_.parts.memory, task.memory); error != 0)
    failed("memory of NUMA domain " + std::to_string(task.memory.front()) + " cannot be requested", error);
}

}  // namespace muster::spank
