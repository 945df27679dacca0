// SPDX-License-Identifier: Apache-2.0
#include "step/task_environment.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "log.hpp"
#include "open_mpi/tcp_interface.hpp"
#include "placement/environment/nccl_conf.hpp"
#include "placement/environment/socket_interface.hpp"
#include "placement/topology/error.hpp"
#include "slurm/pmix_fence.hpp"
#include "step/profiles.hpp"
#include "step/tensorflow_step.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

namespace {

RankLayout read_layout(spank_handle* spank, const SlurmFacts& facts) {
  if (facts.heterogeneous) return lay_out_components(facts.components, facts.ranks);
  const auto variable = [&](const char* name) { return job_variable(spank, name).value_or(""); };
  StepShape shape{variable("SLURM_STEP_NODELIST"),
                  variable("SLURM_STEP_TASKS_PER_NODE"),
                  variable("SLURM_DISTRIBUTION"),
                  variable("SLURM_DIST_PLANESIZE"),
                  facts.world_size,
                  extract_layout(variable(layout_variable), facts.job_id, facts.step_id)};
  return lay_out(shape, facts.ranks);
}

/// This node's index in the step's list.
std::size_t node_index(spank_handle* spank, const RankLayout& layout, const SlurmFacts& facts) {
  if (!facts.ranks.empty())
    if (const auto node = layout.node_of(facts.ranks.front())) return *node;
  std::uint32_t index = 0;
  return spank_get_item(spank, S_JOB_NODEID, &index) == ESPANK_SUCCESS ? index : 0;
}

/// A heterogeneous job's components have ids of their own; SLURM_JOB_ID is the leader's in all of them.
std::uint32_t find_leader_job(spank_handle* spank, std::uint32_t own_id) {
  const std::string text = job_variable(spank, "SLURM_JOB_ID").value_or("");
  std::uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc() && end == text.data() + text.size() && id != 0 ? id : own_id;
}

// Not for variables that always differ from rank to rank: with them, equal nodes would look different.
bool is_explained(const std::string& name) {
  constexpr std::array of_a_rank = {"CUDA_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS", "RANK",
                                    "WORLD_SIZE",           "LOCAL_RANK",           "LOCAL_WORLD_SIZE"};
  return !name.starts_with("MUSTER_") &&
         std::find(of_a_rank.begin(), of_a_rank.end(), name) == of_a_rank.end();
}

std::vector<int> reserved_ports(spank_handle* spank) {
  try {
    return placement::CpuSet::parse_list(job_variable(spank, "SLURM_STEP_RESV_PORTS").value_or(""))
        .to_vector();
  } catch (const placement::Error&) {
    return {};
  }
}

}  // namespace

void clear_outer_step_environment(spank_handle* spank) {
  const auto get_env = [&](const std::string& name) { return job_variable(spank, name); };
  if (!get_env("MUSTER_SET")) return;
  for (const auto& name : placement::set_by_outer_step(get_env)) spank_unsetenv(spank, name.c_str());
  // Those of docs/environment.md that Muster sets, not those that a user sets.
  for (const char* name : {"MUSTER_VERSION", "MUSTER_GPUS", "MUSTER_CPUS", "MUSTER_MEMORY", "MUSTER_NICS",
                           "MUSTER_SET", "MUSTER_SET_SUMS", "MUSTER_KEPT"})
    spank_unsetenv(spank, name);
}

TaskEnvironment::TaskEnvironment(spank_handle* spank, const SlurmFacts& facts, const EnabledParts& parts,
                                 const std::string& profiles)
    : host_(facts.host), parts_(parts) {
  if (!parts.env) return;
  // A step of one task runs a launcher that makes its own ranks: mpirun, torchrun, submitit's launcher.
  parts_.ranks = parts.ranks && facts.world_size > 1;
  job_.world_size = facts.world_size;
  job_.local_world_size = facts.local_tasks;
  const RankLayout layout = read_layout(spank, facts);
  const std::size_t node = node_index(spank, layout, facts);
  find_interface(spank, layout, node);
  find_mpi_interface(spank);
  job_.fence = job_variable(spank, fence_variable).value_or("");
  find_frameworks(spank, facts, layout);
  read_files(spank, profiles, node < layout.hosts.size() ? layout.hosts[node] : facts.host);
}

void TaskEnvironment::read_files(spank_handle* spank, const std::string& profiles, const std::string& node) {
  const auto variable = [&](const char* name) { return job_variable(spank, name).value_or(""); };
  Profiles found = load_profiles(profiles.empty() ? default_profiles : profiles,
                                 {variable("SLURM_CLUSTER_NAME"), variable("SLURM_JOB_PARTITION"), node});
  file_settings_.profiles = std::move(found.settings);
  std::erase_if(file_settings_.profiles,
                [&](const auto& setting) { return is_switched_off(parts_, setting.name); });
  warnings_ = std::move(found.warnings);
  // As NCCL finds them (initEnvFunc() in its src/misc/param.cc), on this node and not in a container.
  const std::string own = variable("NCCL_CONF_FILE");
  if (!own.empty())
    file_settings_.user_files =
        placement::read_nccl_conf(own.starts_with('/') ? own : variable("PWD") + "/" + own);
  else if (const std::string home = variable("HOME"); !home.empty())
    file_settings_.user_files = placement::read_nccl_conf(home + "/.nccl.conf");
  file_settings_.nccl_conf = placement::read_nccl_conf("/etc/nccl.conf");
}

void TaskEnvironment::find_interface(spank_handle* spank, const RankLayout& layout, std::size_t node) {
  // If Slurm counts only the nodes of a component, a name may be this node's own; the next one is then tried.
  const std::size_t others = std::min<std::size_t>(layout.hosts.empty() ? 0 : layout.hosts.size() - 1, 2);
  for (std::size_t step = 1; step <= others && job_.socket_interface.empty(); ++step) {
    const std::string& peer = layout.hosts[(node + step) % layout.hosts.size()];
    job_.socket_interface = placement::route_interface(peer);
    job_.socket_reason = "the interface that routes to another node of the step";
  }
  if (!job_.socket_interface.empty()) return;
  // srun's address as slurmd knows it; SLURM_LAUNCH_NODE_IPADDR is set only in the task.
  if (const auto launcher = job_variable(spank, "SLURM_SRUN_COMM_HOST"); launcher && !launcher->empty())
    job_.socket_interface = placement::route_interface(*launcher);
  job_.socket_reason = "the interface that routes to srun";
  if (job_.socket_interface.empty()) {
    job_.socket_interface = placement::route_interface_from_proc("");
    job_.socket_reason = "the interface of the default route";
  }
  if (others > 0) job_.socket_reason += ", since the step's other nodes are not found by name";
}

// Open MPI ends the job if both btl_tcp_if_include and btl_tcp_if_exclude are set.
void TaskEnvironment::find_mpi_interface(spank_handle* spank) {
  if (!parts_.nic) return;
  const auto advice = open_mpi::advise_tcp_interface(
      job_.socket_interface, [&](const std::string& name) { return job_variable(spank, name); });
  if (advice.should_set) job_.mpi_interface = job_.socket_interface;
  if (!advice.existing_choice.empty())
    left_out_.push_back({open_mpi::tcp_interface_variable, "", advice.existing_choice});
}

void TaskEnvironment::find_frameworks(spank_handle* spank, const SlurmFacts& facts,
                                      const RankLayout& layout) {
  job_.ports = placement::use_reserved(
      placement::derive_ports(find_leader_job(spank, facts.job_id), facts.step_id), reserved_ports(spank));
  if (const auto first = layout.node_of(0)) {
    job_.master_address = layout.hosts[*first];
  } else {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "JAX_COORDINATOR_ADDRESS"})
      left_out_.push_back({name, "", layout.unknown});
  }
  find_tensorflow(layout);
}

void TaskEnvironment::find_tensorflow(const RankLayout& layout) {
  if (job_.world_size < 2) return;  // without TF_CONFIG a single process is a cluster of one
  TensorflowStep step = tensorflow_step(layout, job_.world_size, job_.ports.workers);
  job_.tensorflow_cluster = std::move(step.cluster);
  if (!step.missing.empty()) left_out_.push_back({"TF_CONFIG", "", std::move(step.missing)});
}

placement::EnvironmentChange TaskEnvironment::decide(spank_handle* spank,
                                                     const placement::TaskPlacement& task, int rank,
                                                     const ShownGpus& shown) const {
  placement::JobFacts job = job_;
  job.rank = rank;
  job.local_rank = task.local_rank;
  job.visible_gpus = shown.openable;
  job.gpus_by_index = shown.by_index && orders_gpus_by_pci(spank);
  job.shown_gpus = shown.list;
  job.first_own = shown.first_own;
  const auto get_env = [&](const std::string& name) { return job_variable(spank, name); };
  std::vector<std::string> not_from_user;
  if (shown.replaceable)
    not_from_user.emplace_back("CUDA_VISIBLE_DEVICES");
  else if (!placement::set_by_outer_step(get_env).contains("CUDA_VISIBLE_DEVICES"))
    job.cuda_visible_devices = get_env("CUDA_VISIBLE_DEVICES");
  if (!job.fence.empty() && get_env(fence_marker) == job.fence) not_from_user.emplace_back(fence_variable);
  auto derived = placement::derive_environment(task, job);
  std::erase_if(derived, [&](const auto& variable) { return is_switched_off(parts_, variable.name); });
  auto change = placement::decide_environment(derived, get_env, not_from_user, file_settings_);
  change.left_out.insert(change.left_out.end(), left_out_.begin(), left_out_.end());
  return change;
}

// Whether the tasks' CUDA_DEVICE_ORDER will be PCI_BUS_ID, the value that Muster sets.
bool TaskEnvironment::orders_gpus_by_pci(spank_handle* spank) const {
  constexpr const char *name = "CUDA_DEVICE_ORDER", *by_pci = "PCI_BUS_ID";
  if (const auto value = job_variable(spank, name)) return *value == by_pci;
  for (const auto* list : {&file_settings_.user_files, &file_settings_.profiles, &file_settings_.nccl_conf})
    for (const auto& setting : *list)
      if (setting.name == name) return setting.value == by_pci;
  return true;
}

std::optional<std::string> TaskEnvironment::effective_value(spank_handle* spank,
                                                            const std::string& name) const {
  if (auto value = job_variable(spank, name)) return value;
  for (const auto* list : {&file_settings_.user_files, &file_settings_.profiles, &file_settings_.nccl_conf})
    for (const auto& setting : *list)
      if (setting.name == name) return setting.value;
  return std::nullopt;
}

std::vector<std::string> TaskEnvironment::explain(spank_handle* spank, const placement::TaskPlacement& task,
                                                  int rank) const {
  if (!parts_.env) return {};
  const auto change = decide(spank, task, rank, {{}, false, true, task.gpus, 0});
  std::vector<std::string> lines;
  const auto add = [&](const std::vector<placement::Variable>& variables, bool valued) {
    constexpr std::size_t longest = 60;
    for (const auto& variable : variables) {
      if (!is_explained(variable.name)) continue;
      const std::string value =
          variable.value.size() <= longest ? variable.value : variable.value.substr(0, longest) + "...";
      lines.push_back(variable.name + (valued ? "=" + value : " not set") + ": " + variable.reason);
    }
  };
  add(change.set, true);
  add(change.kept, true);
  add(change.left_out, false);
  return lines;
}

void TaskEnvironment::apply(spank_handle* spank, const placement::EnvironmentChange& change, int rank) const {
  const auto stale =
      placement::set_by_outer_step([&](const std::string& name) { return job_variable(spank, name); });
  for (const auto& variable : change.set)
    if (spank_setenv(spank, variable.name.c_str(), variable.value.c_str(), 1) != ESPANK_SUCCESS)
      log_to_user("muster: rank %d on %s: %s could not be set", rank, host_.c_str(), variable.name.c_str());
  const auto is_set_now = [&](const std::string& name) {
    return std::any_of(change.set.begin(), change.set.end(),
                       [&](const auto& one) { return one.name == name; });
  };
  for (const std::string& name : stale)
    if (!is_set_now(name)) spank_unsetenv(spank, name.c_str());
}

}  // namespace muster::spank
