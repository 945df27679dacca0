// SPDX-License-Identifier: Apache-2.0
#include "slurm/slurm_facts.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <sstream>
#include <stdexcept>

#include "placement/topology/error.hpp"
#include "placement/topology/sysfs.hpp"
#include "slurm/heterogeneous.hpp"
#include "slurm/srun_command.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

namespace {

template <typename Value>
Value get_item(spank_t spank, spank_item_t which, const char* what) {
  Value value{};
  const spank_err_t error = spank_get_item(spank, which, &value);
  if (error != ESPANK_SUCCESS)
    throw std::runtime_error(std::string("Slurm does not report ") + what + ": " + spank_strerror(error));
  return value;
}

int get_count(spank_t spank, spank_item_t which, const char* what) {
  const auto count = get_item<std::uint32_t>(spank, which, what);
  if (count > static_cast<std::uint32_t>(std::numeric_limits<int>::max()))
    throw std::runtime_error("Slurm counts " + std::to_string(count) + " as " + what +
                             ", more than there can be");
  return static_cast<int>(count);
}

std::vector<int> ranks_of_local_tasks(spank_t spank, int local_tasks) {
  std::vector<int> ranks;
  for (int local = 0; local < local_tasks; ++local) {
    std::uint32_t rank = 0;
    if (spank_get_item(spank, S_JOB_LOCAL_TO_GLOBAL_ID, static_cast<std::uint32_t>(local), &rank) !=
        ESPANK_SUCCESS)
      throw std::runtime_error("Slurm does not report the rank of local task " + std::to_string(local));
    ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

placement::CpuSet read_affinity() {
  placement::CpuSet cpus;
  // A fixed cpu_set_t holds 1024 CPUs; machines with more need a larger one, so size it to the placement's
  // own limit.
  cpu_set_t* mask = CPU_ALLOC(placement::CpuSet::limit);
  const std::size_t bytes = CPU_ALLOC_SIZE(placement::CpuSet::limit);
  if (mask == nullptr) throw std::bad_alloc();
  if (sched_getaffinity(0, bytes, mask) == 0)
    for (int cpu = 0, left = CPU_COUNT_S(bytes, mask); left > 0; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, mask)) {
        cpus.add(cpu);
        --left;
      }
  CPU_FREE(mask);
  return cpus;
}

std::vector<int> read_memory_domains() {
  constexpr std::string_view key = "\nMems_allowed_list:";
  const std::string status = placement::Sysfs("/").text("/proc/self/status").value_or("");
  const auto at = status.find(key);
  if (at == std::string::npos) return {};
  const auto start = at + key.size();
  return placement::CpuSet::parse_list(status.substr(start, status.find('\n', start) - start)).to_vector();
}

std::string read_host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// A list of numbers in Slurm's or the kernel's notation; nullopt for anything else, such as MIG UUIDs.
std::optional<placement::CpuSet> parse_numbers(const std::string& text) {
  try {
    return placement::CpuSet::parse_list(text);
  } catch (const placement::Error&) {
    return std::nullopt;
  }
}

std::vector<std::string> split_gpus(const std::string& text) {
  constexpr std::ptrdiff_t most_gpus = 1024;  // of a node, with MIG instances; the text may be the user's own
  if (std::count(text.begin(), text.end(), ',') >= most_gpus)
    throw std::runtime_error("Slurm names more than " + std::to_string(most_gpus) + " GPUs of this node");
  std::vector<std::string> gpus;
  std::istringstream parts(text == "NoDevFiles" ? "" : text);
  for (std::string part; std::getline(parts, part, ',');) gpus.push_back(part);
  return gpus;
}

// In a heterogeneous step SPANK's items describe this component; the environment describes the whole step.
void add_heterogeneous(spank_t spank, SlurmFacts& facts) {
  const auto variable = [&](const std::string& name) { return job_variable(spank, name).value_or(""); };
  const int whole = parse_count(variable("SLURM_STEP_NUM_TASKS"));
  if (whole <= facts.world_size) return;
  HeterogeneousStep step;
  step.whole = {variable("SLURM_STEP_NODELIST"), variable("SLURM_STEP_TASKS_PER_NODE"),
                variable("SLURM_DISTRIBUTION"), variable("SLURM_DIST_PLANESIZE"), whole};
  // Slurm 22.05 still has PACK where its manual has HET.
  for (const std::string kind : {"_HET_GROUP_", "_PACK_GROUP_"})
    for (int group = 0; step.groups.size() == static_cast<std::size_t>(group); ++group) {
      const std::string suffix = kind + std::to_string(group);
      const auto nodes = job_variable(spank, "SLURM_JOB_NODELIST" + suffix);
      if (!nodes) break;
      step.groups.push_back(*nodes);
      if (variable("SLURM_JOB_ID" + suffix) == std::to_string(facts.job_id))
        step.own_group = static_cast<std::size_t>(group);
    }
  Components components = find_components(step);
  facts.heterogeneous = true;
  facts.world_size = whole;
  facts.components = std::move(components.shapes);
  for (int& rank : facts.ranks) rank = components.first_rank < 0 ? -1 : rank + components.first_rank;
}

// A binding that names CPUs, or `none`; empty for others (threads, which --hint=nomultithread implies, cores,
// sockets, ldoms), since they only set the granularity of Slurm's own choice.
std::string explicit_cpu_binding(const std::string& binding) {
  const bool named = binding.starts_with("map_") || binding.starts_with("mask_") ||
                     binding.starts_with("rank") || binding == "none";
  return named ? binding : "";
}

}  // namespace

std::string step_program(spank_handle* spank) {
  int count = 0;
  char** words = nullptr;
  const bool known = spank_get_item(spank, S_JOB_ARGV, &count, &words) == ESPANK_SUCCESS;
  return known && count > 0 && words != nullptr && words[0] != nullptr ? words[0] : "";
}

std::optional<std::string> job_variable(spank_handle* spank, const std::string& name) {
  std::string value(1024, '\0');
  while (true) {
    const spank_err_t error = spank_getenv(spank, name.c_str(), value.data(), static_cast<int>(value.size()));
    if (error == ESPANK_SUCCESS) return value.substr(0, value.find('\0'));
    constexpr std::size_t longest =
        1 << 20;  // a variable longer than the kernel's limit for one string does not exist
    if (error != ESPANK_NOSPACE || value.size() >= longest) return std::nullopt;
    value.resize(value.size() * 4);
  }
}

SlurmFacts read_slurm_facts(spank_handle* spank) {
  SlurmFacts facts;
  facts.uid = get_item<uid_t>(spank, S_JOB_UID, "the user");
  facts.job_id = get_item<std::uint32_t>(spank, S_JOB_ID, "the job");
  facts.step_id = get_item<std::uint32_t>(spank, S_JOB_STEPID, "the step");
  facts.host = read_host_name();
  facts.local_tasks = get_count(spank, S_JOB_LOCAL_TASK_COUNT, "the tasks on this node");
  facts.world_size = get_count(spank, S_JOB_TOTAL_TASK_COUNT, "the tasks of the step");
  facts.ranks = ranks_of_local_tasks(spank, facts.local_tasks);
  facts.cpus_per_task =
      static_cast<int>(get_item<std::uint32_t>(spank, S_STEP_CPUS_PER_TASK, "the CPUs per task"));
  // srun of 22.05 and 23.02 does not use the job's -c, but the user still wants that many CPUs for a task.
  facts.cpus_requested = parse_count(job_variable(spank, "SLURM_CPUS_PER_TASK").value_or(""));
  facts.gpu_request = read_gpu_request([&](const std::string& name) { return job_variable(spank, name); });
  facts.gpus = split_gpus(job_variable(spank, "SLURM_STEP_GPUS").value_or(""));
  facts.cuda_devices = split_gpus(job_variable(spank, "CUDA_VISIBLE_DEVICES").value_or(""));
  facts.cpus = read_affinity();
  char* cores = nullptr;
  if (spank_get_item(spank, S_STEP_ALLOC_CORES, &cores) == ESPANK_SUCCESS && cores != nullptr)
    facts.step_cores = parse_numbers(cores);
  facts.memory = read_memory_domains();
  // Before the tasks start, SLURM_CPU_BIND_TYPE is set only if a binding was requested.
  if (!job_variable(spank, inherited_cpu_binding))
    facts.cpu_binding = explicit_cpu_binding(job_variable(spank, "SLURM_CPU_BIND_TYPE").value_or(""));
  add_heterogeneous(spank, facts);
  return facts;
}

}  // namespace muster::spank
