// SPDX-License-Identifier: Apache-2.0
#include "slurm/slurm_facts.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "isolation_marker.hpp"
#include "slurm/binding.hpp"
#include "slurm/srun_command.hpp"
#include "text/parse_number.hpp"

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

std::string read_host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
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
void add_heterogeneous(const placement::GetEnv& get_env, SlurmFacts& facts) {
  const int whole = parse_count(get_env("SLURM_STEP_NUM_TASKS").value_or(""));
  if (whole <= facts.world_size) return;
  facts.heterogeneous = true;
  facts.world_size = facts.shape.world_size = whole;
  HeterogeneousStep step{facts.shape, {}, 0};
  // Slurm 22.05 still has PACK where its manual has HET.
  for (const std::string kind : {"_HET_GROUP_", "_PACK_GROUP_"})
    for (int group = 0; step.groups.size() == static_cast<std::size_t>(group); ++group) {
      const std::string suffix = kind + std::to_string(group);
      const auto nodes = get_env("SLURM_JOB_NODELIST" + suffix);
      if (!nodes) break;
      step.groups.push_back(*nodes);
      if (get_env("SLURM_JOB_ID" + suffix) == std::to_string(facts.job_id))
        step.own_group = static_cast<std::size_t>(group);
    }
  Components components = find_components(step);
  facts.components = std::move(components.shapes);
  for (int& rank : facts.ranks) rank = components.first_rank < 0 ? -1 : rank + components.first_rank;
}

// The host's name may differ: it may have a domain, and several slurmds may run on one host.
std::optional<std::string> find_own_name(const SlurmFacts& facts) {
  if (!facts.heterogeneous) return find_node_name(facts.shape.node_list, facts.node_index);
  const RankLayout layout = lay_out_components(facts.components, facts.ranks);
  const auto node = facts.ranks.empty() ? std::nullopt : layout.node_of(facts.ranks.front());
  return node ? std::optional(layout.hosts[*node]) : std::nullopt;
}

// A binding that names CPUs, or `none`; empty for others (threads, which --hint=nomultithread implies, cores,
// sockets, ldoms), since they only set the granularity of Slurm's own choice.
std::string explicit_cpu_binding(const std::string& binding) {
  const bool named = binding.starts_with("map_") || binding.starts_with("mask_") ||
                     binding.starts_with("rank") || binding == "none";
  return named ? binding : "";
}

std::optional<std::string> job_variable(spank_t spank, const std::string& name) {
  std::string value(1024, '\0');
  while (true) {
    const spank_err_t error = spank_getenv(spank, name.c_str(), value.data(), static_cast<int>(value.size()));
    if (error == ESPANK_SUCCESS) return value.substr(0, value.find('\0'));
    // A variable longer than the kernel's limit for one string does not exist.
    constexpr std::size_t longest = 1 << 20;
    if (error != ESPANK_NOSPACE || value.size() >= longest) return std::nullopt;
    value.resize(value.size() * 4);
  }
}

}  // namespace

std::string step_program(spank_handle* spank) {
  int count = 0;
  char** words = nullptr;
  const bool known = spank_get_item(spank, S_JOB_ARGV, &count, &words) == ESPANK_SUCCESS;
  return known && count > 0 && words != nullptr && words[0] != nullptr ? words[0] : "";
}

placement::GetEnv job_environment(spank_handle* spank) {
  return [spank](const std::string& name) { return job_variable(spank, name); };
}

SlurmFacts read_slurm_facts(spank_handle* spank) {
  const auto get_env = job_environment(spank);
  const auto variable = [&](const char* name) { return get_env(name).value_or(""); };
  SlurmFacts facts;
  facts.job_id = get_item<std::uint32_t>(spank, S_JOB_ID, "the job");
  // A heterogeneous job's components have ids of their own; SLURM_JOB_ID is the leader's in all of them.
  facts.leader_job = parse_number<std::uint32_t>(variable("SLURM_JOB_ID")).value_or(0);
  if (facts.leader_job == 0) facts.leader_job = facts.job_id;
  facts.step_id = get_item<std::uint32_t>(spank, S_JOB_STEPID, "the step");
  facts.cluster = variable("SLURM_CLUSTER_NAME");
  facts.partition = variable("SLURM_JOB_PARTITION");
  if (spank_get_item(spank, S_JOB_NNODES, &facts.nodes) != ESPANK_SUCCESS) facts.nodes = 0;
  std::uint32_t index = 0;
  if (spank_get_item(spank, S_JOB_NODEID, &index) == ESPANK_SUCCESS) facts.node_index = index;
  facts.local_tasks = get_count(spank, S_JOB_LOCAL_TASK_COUNT, "the tasks on this node");
  facts.world_size = get_count(spank, S_JOB_TOTAL_TASK_COUNT, "the tasks of the step");
  facts.ranks = ranks_of_local_tasks(spank, facts.local_tasks);
  facts.shape = {variable("SLURM_STEP_NODELIST"),
                 variable("SLURM_STEP_TASKS_PER_NODE"),
                 variable("SLURM_DISTRIBUTION"),
                 variable("SLURM_DIST_PLANESIZE"),
                 facts.world_size,
                 extract_layout(variable(layout_variable), facts.job_id, facts.step_id)};
  facts.cpus_per_task =
      static_cast<int>(get_item<std::uint32_t>(spank, S_STEP_CPUS_PER_TASK, "the CPUs per task"));
  // srun of 22.05 and 23.02 does not use the job's -c, but the user still wants that many CPUs for a task.
  facts.cpus_requested = parse_count(variable("SLURM_CPUS_PER_TASK"));
  facts.gpu_request = read_gpu_request(get_env);
  facts.gpus = split_gpus(variable("SLURM_STEP_GPUS"));
  facts.cuda_devices = split_gpus(variable("CUDA_VISIBLE_DEVICES"));
  facts.cpus = read_affinity();
  char* cores = nullptr;
  if (spank_get_item(spank, S_STEP_ALLOC_CORES, &cores) == ESPANK_SUCCESS && cores != nullptr)
    facts.step_cores = CpuSet::parse_list(cores);
  facts.memory = read_memory_domains();
  // Before the tasks start, SLURM_CPU_BIND_TYPE is set only if a binding was requested.
  if (!get_env(inherited_cpu_binding))
    facts.cpu_binding = explicit_cpu_binding(variable("SLURM_CPU_BIND_TYPE"));
  facts.reserved_ports = CpuSet::parse_list(variable("SLURM_STEP_RESV_PORTS")).value_or(CpuSet()).to_vector();
  // SLURM_LAUNCH_NODE_IPADDR is set only in the task.
  facts.srun_host = variable("SLURM_SRUN_COMM_HOST");
  add_heterogeneous(get_env, facts);
  facts.host = find_own_name(facts).value_or(read_host_name());
  return facts;
}

TaskFacts read_task_facts(spank_handle* spank, const SlurmFacts& step) {
  const auto get_env = job_environment(spank);
  TaskFacts task;
  if (spank_get_item(spank, S_TASK_ID, &task.local_rank) != ESPANK_SUCCESS || task.local_rank < 0 ||
      task.local_rank >= step.local_tasks)
    throw std::runtime_error("Slurm does not report which task this is");
  // In a heterogeneous step SPANK's items lack the offset of the component, but the environment includes it.
  const std::string procid = get_env("SLURM_PROCID").value_or("");
  task.rank = procid == "0"
                  ? 0
                  : std::max(parse_count(procid), step.ranks[static_cast<std::size_t>(task.local_rank)]);
  if (task.rank < 0)
    throw std::runtime_error("Slurm does not report the rank of local task " +
                             std::to_string(task.local_rank));
  task.gpu_request = read_gpu_request(get_env);
  task.cuda_devices = get_env("CUDA_VISIBLE_DEVICES");
  task.isolation_marker = get_env(isolation_marker);
  task.gpu_binding = get_env("SLURMD_TRES_BIND");
  return task;
}

}  // namespace muster::spank
