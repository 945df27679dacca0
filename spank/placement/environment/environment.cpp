// SPDX-License-Identifier: Apache-2.0
#include "placement/environment/environment.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hash/fnv1a.hpp"
#include "text/split.hpp"

namespace muster::placement {

namespace {

void append(std::string& list, const std::string& item) {
  if (!list.empty()) list += ',';
  list += item;
}

/// True if the NIC works with verbs, so that NCCL and UCX accept its name.
bool has_verbs(const PlacedNic& nic) {
  return !nic.name.empty() && nic.kind != NicKind::efa && nic.kind != NicKind::slingshot &&
         nic.kind != NicKind::ethernet;
}

std::string verbs_devices(const std::vector<PlacedNic>& nics) {
  std::string list;
  for (const auto& nic : nics) {
    if (has_verbs(nic)) append(list, nic.name + ":" + std::to_string(nic.port));
  }
  return list;
}

/// The GPUs that CUDA should show the task; an empty value: unknown, or the existing variable stays.
Variable visible_devices(const TaskPlacement& task, const JobFacts& facts) {
  const std::vector<PlacedGpu>& shown = facts.shown_gpus ? *facts.shown_gpus : task.gpus;
  const std::string owner =
      shown.size() == task.gpus.size() ? "the task's GPUs" : "the step's GPUs on this node";
  Variable variable{"CUDA_VISIBLE_DEVICES", "", owner + " by UUID"};
  const auto is_instance = [](const PlacedGpu& gpu) { return gpu.mig; };
  if (!facts.shown_gpus && std::any_of(shown.begin(), shown.end(), is_instance)) return variable;
  const bool have_uuids =
      std::all_of(shown.begin(), shown.end(), [](const PlacedGpu& gpu) { return !gpu.uuid.empty(); });
  std::vector<PciAddress> visible = facts.visible_gpus;
  if (visible.empty()) {
    for (const auto& gpu : shown) visible.push_back(gpu.pci);
  }
  std::sort(visible.begin(), visible.end());
  const auto index = [&](const PlacedGpu& gpu) { return std::find(visible.begin(), visible.end(), gpu.pci); };
  const bool have_indices = std::all_of(shown.begin(), shown.end(),
                                        [&](const PlacedGpu& gpu) { return index(gpu) != visible.end(); });
  if (!have_uuids && !have_indices) return {variable.name, "", ""};
  const bool by_index = have_indices && (facts.gpus_by_index || !have_uuids);
  if (by_index) {
    variable.reason = owner + " by index in PCI order among the " + std::to_string(visible.size()) +
                      " that it can open" + (have_uuids ? "" : "; UUIDs unknown");
  }
  for (const auto& gpu : shown)
    append(variable.value, by_index ? std::to_string(index(gpu) - visible.begin()) : gpu.uuid);
  return variable;
}

void add_devices(const TaskPlacement& task, const JobFacts& facts, std::vector<Variable>& variables) {
  if (!task.gpus.empty()) {
    const auto visible = visible_devices(task, facts);
    if (!visible.value.empty()) variables.push_back(visible);
    variables.push_back({"CUDA_DEVICE_ORDER", "PCI_BUS_ID", "indices count in PCI order, not by speed"});
  }
  // NCCL needs the same list on all ranks of a node and chooses the nearest NIC of it for each GPU itself.
  // With lists that differ it builds broken rings (its maintainers in NVIDIA/nccl#1478;
  // nv-legate/legate#528). UCX takes one list per process.
  const std::string node_devices = verbs_devices(task.node_nics);
  const std::string devices = verbs_devices(task.nics);
  const std::string& socket = facts.socket_interface;
  if (!node_devices.empty()) {
    variables.push_back({"NCCL_IB_HCA", "=" + node_devices,
                         "the RDMA ports nearest to the step's GPUs on this node, by exact name"});
  }
  const std::string reason =
      facts.socket_reason.empty() ? "the interface that routes to the other nodes" : facts.socket_reason;
  if (!socket.empty()) variables.push_back({"NCCL_SOCKET_IFNAME", "=" + socket, reason});
  if (!devices.empty()) {
    variables.push_back({"UCX_NET_DEVICES", devices, "the RDMA ports nearest to the task's GPUs"});
  } else if (!socket.empty() && task.nics.empty()) {
    variables.push_back({"UCX_NET_DEVICES", socket, "no usable RDMA port: " + reason});
  }
  if (!socket.empty()) variables.push_back({"GLOO_SOCKET_IFNAME", socket, reason});
  if (!facts.mpi_interface.empty())
    variables.push_back({"OMPI_MCA_btl_tcp_if_include", facts.mpi_interface, reason});
  const bool by_quota = facts.quota_cpus > 0 && facts.quota_cpus < task.cores;
  variables.push_back({"OMP_NUM_THREADS",
                       std::to_string(by_quota ? facts.quota_cpus : std::max(task.cores, 1)),
                       by_quota ? "the task's share of the CPU quota" : "the task's cores"});
}

void add_job(const JobFacts& facts, std::vector<Variable>& variables) {
  if (!facts.fence.empty()) {
    variables.push_back(
        {"SLURM_PMIX_FENCE", facts.fence,
         "by a ring MPI_Init ends on all nodes before the first message, by Slurm's tree on each by itself"});
  }
  if (facts.rank >= 0) {
    variables.push_back({"RANK", std::to_string(facts.rank), "from the launcher"});
    variables.push_back({"WORLD_SIZE", std::to_string(facts.world_size), "from the launcher"});
    variables.push_back({"LOCAL_RANK", std::to_string(facts.local_rank), "from the launcher"});
    variables.push_back({"LOCAL_WORLD_SIZE", std::to_string(facts.local_world_size), "from the launcher"});
  }
  if (facts.master_address.empty()) return;
  variables.push_back({"MASTER_ADDR", facts.master_address, "the node of rank 0"});
  variables.push_back({"MASTER_PORT", std::to_string(facts.ports.master), facts.ports.origin});
  if (facts.ports.coordinator != 0) {
    variables.push_back({"JAX_COORDINATOR_ADDRESS",
                         facts.master_address + ":" + std::to_string(facts.ports.coordinator),
                         "the node of rank 0, port " + facts.ports.origin});
  }
}

void add_tensorflow(const JobFacts& facts, std::vector<Variable>& variables) {
  if (facts.tensorflow_cluster.empty() || facts.rank < 0) return;
  variables.push_back({"TF_CONFIG",
                       R"({"cluster":)" + facts.tensorflow_cluster + R"(,"task":{"type":"worker","index":)" +
                           std::to_string(facts.rank) + "}}",
                       "every rank's node, ports " + facts.ports.origin});
}

/// Without this variable, JAX under Slurm takes the GPU whose index among those that CUDA shows is the local
/// rank.
void add_jax_devices(const TaskPlacement& task, const JobFacts& facts, std::vector<Variable>& variables) {
  auto count = static_cast<long>(task.gpus.size());
  long first = facts.first_own;
  const bool in_instances = !task.gpus.empty() && task.gpus.front().mig;
  if (const auto& shown = facts.cuda_visible_devices) {
    count = shown->empty() ? 0 : 1 + std::count(shown->begin(), shown->end(), ',');
    first = 0;
  } else if (in_instances && (!facts.shown_gpus || facts.shown_gpus->empty())) {
    return;  // CUDA chooses an instance, and Slurm has not listed them
  }
  std::string ids;
  for (long id = first; id < first + count; ++id) append(ids, std::to_string(id));
  if (!task.gpus.empty() && count > 0)
    variables.push_back({"JAX_LOCAL_DEVICE_IDS", ids, "the task's GPUs among those that CUDA shows it"});
}

void add_muster_variables(const TaskPlacement& task, std::vector<Variable>& variables) {
  std::string gpus;
  for (const auto& gpu : task.gpus) append(gpus, gpu.pci.to_string());
  std::string memory;
  for (const int domain : task.memory) append(memory, std::to_string(domain));
  std::string nics;
  for (const auto& nic : task.nics) append(nics, nic.label + ":" + std::to_string(nic.port));
  variables.push_back({"MUSTER_VERSION", MUSTER_VERSION, "the version that made this placement"});
  variables.push_back({"MUSTER_GPUS", gpus, "PCI addresses of the task's GPUs"});
  variables.push_back({"MUSTER_CPUS", task.cpus.to_list(), "the task's CPUs"});
  variables.push_back({"MUSTER_MEMORY", memory, "NUMA domains that memory is preferred on"});
  variables.push_back({"MUSTER_NICS", nics, "RDMA ports nearest to the task's GPUs"});
}

std::vector<std::string> split_names(const std::string& list) {
  std::vector<std::string> names;
  for (const auto name : split(list, ','))
    if (!name.empty()) names.emplace_back(name);
  return names;
}

}  // namespace

std::vector<Variable> derive_environment(const TaskPlacement& task, const JobFacts& facts) {
  std::vector<Variable> variables;
  add_devices(task, facts, variables);
  add_job(facts, variables);
  add_jax_devices(task, facts, variables);
  add_tensorflow(facts, variables);
  add_muster_variables(task, variables);
  return variables;
}

std::string tensorflow_cluster(const std::vector<std::string>& hosts, const std::vector<int>& ports) {
  if (hosts.empty() || hosts.size() != ports.size()) return {};
  nlohmann::json workers = nlohmann::json::array();
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    workers.push_back(hosts[rank] + ":" + std::to_string(ports[rank]));
  const std::string text = nlohmann::json({{"worker", std::move(workers)}})
                               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  constexpr std::size_t longest = 128 * 1024;  // MAX_ARG_STRLEN of linux/binfmts.h with pages of 4 KiB
  constexpr std::size_t rest = 80;  // TF_CONFIG={"cluster":…,"task":{…}} and the null character
  return text.size() + rest > longest ? std::string() : text;
}

namespace {

const Setting* find(const std::vector<Setting>& settings, const std::string& name) {
  const auto at = std::find_if(settings.begin(), settings.end(),
                               [&](const Setting& setting) { return setting.name == name; });
  return at == settings.end() ? nullptr : &*at;
}

/// Applies a profile's setting for a variable that the user has not set.
void apply_profile(const Setting& profile, const Setting* shadowed, EnvironmentChange& change) {
  if (!profile.value) {
    change.left_out.push_back({profile.name, "", "left alone: " + profile.file, Origin::profile});
    return;
  }
  std::string reason = profile.file;
  if (shadowed != nullptr) {
    reason += ", instead of " + shadowed->value.value_or("") + " in " + shadowed->file;
    change.notes.push_back(profile.name + "=" + *profile.value + " is set by " + reason);
  }
  change.set.push_back({profile.name, *profile.value, reason, Origin::profile});
}

/// Decides one variable that the environment does not have. derived: null if only a profile sets the
/// variable.
void decide_variable(const std::string& name, const Variable* derived, const FileSettings& file_settings,
                     EnvironmentChange& change) {
  const auto [setting, origin] = find_setting(file_settings, name);
  if (setting == nullptr)
    change.set.push_back(*derived);
  else if (origin == Origin::profile)
    apply_profile(*setting, find(file_settings.nccl_conf, name), change);
  else
    change.kept.push_back({name, setting->value.value_or(""), "set in " + setting->file, origin});
}

/// Joins the texts of all variables but MUSTER_* with commas.
template <typename Text>
std::string join_texts(const std::vector<Variable>& variables, Text text) {
  std::string list;
  for (const auto& variable : variables)
    if (!variable.name.starts_with("MUSTER_")) append(list, text(variable));
  return list;
}

}  // namespace

FoundSetting find_setting(const FileSettings& settings, const std::string& name) {
  if (const Setting* own = find(settings.user_files, name)) return {own, Origin::user_file};
  if (const Setting* profile = find(settings.profiles, name)) return {profile, Origin::profile};
  if (const Setting* nccl = find(settings.nccl_conf, name)) return {nccl, Origin::nccl_conf};
  return {};
}

std::set<std::string> set_by_outer_step(const GetEnv& get_env) {
  const auto names = split_names(get_env("MUSTER_SET").value_or(""));
  const auto sums = split_names(get_env("MUSTER_SET_SUMS").value_or(""));
  std::set<std::string> unchanged;
  for (std::size_t i = 0; i < std::min(names.size(), sums.size()); ++i)
    if (const auto value = get_env(names[i]); value && sums[i] == hexadecimal(fnv1a(*value)))
      unchanged.insert(names[i]);
  return unchanged;
}

EnvironmentChange decide_environment(const std::vector<Variable>& derived, const GetEnv& get_env,
                                     const std::vector<std::string>& not_from_user,
                                     const FileSettings& file_settings) {
  EnvironmentChange change;
  auto replaceable = set_by_outer_step(get_env);
  replaceable.insert(not_from_user.begin(), not_from_user.end());
  const auto decide_one = [&](const std::string& name, const Variable* variable) {
    const auto found = replaceable.contains(name) ? std::nullopt : get_env(name);
    if (found)
      change.kept.push_back({name, *found, "set already", Origin::user});
    else
      decide_variable(name, variable, file_settings, change);
  };
  std::set<std::string> seen;
  for (const auto& variable : derived) {
    seen.insert(variable.name);
    if (variable.name.starts_with("MUSTER_"))
      change.set.push_back(variable);
    else
      decide_one(variable.name, &variable);
  }
  for (const auto& setting : file_settings.profiles)
    if (!seen.contains(setting.name)) decide_one(setting.name, nullptr);
  const auto to_name = [](const Variable& variable) { return variable.name; };
  const auto to_checksum = [](const Variable& variable) { return hexadecimal(fnv1a(variable.value)); };
  change.set.push_back({"MUSTER_SET", join_texts(change.set, to_name), "the variables set by this step"});
  change.set.push_back({"MUSTER_SET_SUMS", join_texts(change.set, to_checksum), "their values' checksums"});
  change.set.push_back(
      {"MUSTER_KEPT", join_texts(change.kept, to_name), "the variables found set and left alone"});
  return change;
}

}  // namespace muster::placement
