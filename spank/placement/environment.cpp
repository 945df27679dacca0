// SPDX-License-Identifier: Apache-2.0
#include "placement/environment.hpp"

#include <algorithm>
#include <set>

namespace muster::placement {

namespace {

void append(std::string& list, const std::string& item) {
  if (!list.empty()) list += ',';
  list += item;
}

/// Works with verbs, so that NCCL and UCX can be told its name.
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

/// The task's GPUs as CUDA should see them; empty: cannot be said, or Slurm has said it (MIG instances).
Variable visible_devices(const TaskPlacement& task, const JobFacts& facts) {
  Variable variable{"CUDA_VISIBLE_DEVICES", "", "the task's GPUs by UUID"};
  const auto is_instance = [](const PlacedGpu& gpu) { return gpu.mig; };
  if (std::any_of(task.gpus.begin(), task.gpus.end(), is_instance)) return variable;
  const bool uuids =
      std::all_of(task.gpus.begin(), task.gpus.end(), [](const PlacedGpu& gpu) { return !gpu.uuid.empty(); });
  std::vector<PciAddress> visible = facts.visible_gpus;
  if (visible.empty()) {
    for (const auto& gpu : task.gpus) visible.push_back(gpu.pci);
  }
  std::sort(visible.begin(), visible.end());
  if (!uuids) {
    variable.reason = "the task's GPUs by index in PCI order among the " + std::to_string(visible.size()) +
                      " that it can open; UUIDs unknown";
  }
  for (const auto& gpu : task.gpus) {
    const auto at = std::find(visible.begin(), visible.end(), gpu.pci);
    if (!uuids && at == visible.end()) return {variable.name, "", ""};
    append(variable.value, uuids ? gpu.uuid : std::to_string(at - visible.begin()));
  }
  return variable;
}

void add_devices(const TaskPlacement& task, const JobFacts& facts, std::vector<Variable>& variables) {
  if (!task.gpus.empty()) {
    const auto visible = visible_devices(task, facts);
    if (!visible.value.empty()) variables.push_back(visible);
    variables.push_back({"CUDA_DEVICE_ORDER", "PCI_BUS_ID", "indices count in PCI order, not by speed"});
  }
  // NCCL wants one list for all of its ranks on a node and picks the nearest of it for each GPU itself; with
  // lists that differ it builds broken rings (its maintainers in NVIDIA/nccl#1478; nv-legate/legate#528). UCX
  // takes one per process.
  const std::string node_devices = verbs_devices(task.node_nics);
  const std::string devices = verbs_devices(task.nics);
  const std::string& socket = facts.socket_interface;
  if (!node_devices.empty()) {
    variables.push_back({"NCCL_IB_HCA", "=" + node_devices,
                         "the RDMA ports nearest to the step's GPUs on this node, by exact name"});
  }
  if (!socket.empty()) {
    variables.push_back({"NCCL_SOCKET_IFNAME", "=" + socket, "the interface that routes to the other nodes"});
  }
  if (!devices.empty()) {
    variables.push_back({"UCX_NET_DEVICES", devices, "the RDMA ports nearest to the task's GPUs"});
  } else if (!socket.empty() && task.nics.empty()) {
    variables.push_back(
        {"UCX_NET_DEVICES", socket, "no usable RDMA port: the interface that routes to the other nodes"});
  }
  if (!socket.empty()) {
    variables.push_back({"GLOO_SOCKET_IFNAME", socket, "the interface that routes to the other nodes"});
  }
  variables.push_back({"OMP_NUM_THREADS", std::to_string(std::max(task.cores, 1)), "the task's cores"});
}

void add_job(const JobFacts& facts, std::vector<Variable>& variables) {
  if (facts.rank >= 0) {
    variables.push_back({"RANK", std::to_string(facts.rank), "from Slurm"});
    variables.push_back({"WORLD_SIZE", std::to_string(facts.world_size), "from Slurm"});
    variables.push_back({"LOCAL_RANK", std::to_string(facts.local_rank), "from Slurm"});
    variables.push_back({"LOCAL_WORLD_SIZE", std::to_string(facts.local_world_size), "from Slurm"});
  }
  if (!facts.master_address.empty()) {
    variables.push_back({"MASTER_ADDR", facts.master_address, "the node of rank 0"});
    variables.push_back(
        {"MASTER_PORT", std::to_string(facts.master_port), "derived from user, job and step"});
  }
}

void add_mirror(const TaskPlacement& task, std::vector<Variable>& variables) {
  std::string gpus;
  for (const auto& gpu : task.gpus) append(gpus, gpu.pci.to_string());
  std::string memory;
  for (const int domain : task.memory) append(memory, std::to_string(domain));
  std::string nics;
  for (const auto& nic : task.nics) append(nics, nic.label + ":" + std::to_string(nic.port));
  variables.push_back({"MUSTER_VERSION", MUSTER_VERSION, "who made this placement"});
  variables.push_back({"MUSTER_GPUS", gpus, "PCI addresses of the task's GPUs"});
  variables.push_back({"MUSTER_CPUS", task.cpus.to_list(), "the task's CPUs"});
  variables.push_back({"MUSTER_MEMORY", memory, "NUMA domains that memory is preferred on"});
  variables.push_back({"MUSTER_NICS", nics, "RDMA ports nearest to the task's GPUs"});
}

std::set<std::string> split_names(const std::string& list) {
  std::set<std::string> names;
  std::size_t start = 0;
  while (start <= list.size()) {
    const auto end = std::min(list.find(',', start), list.size());
    if (end > start) names.insert(list.substr(start, end - start));
    start = end + 1;
  }
  return names;
}

}  // namespace

std::vector<Variable> derive_environment(const TaskPlacement& task, const JobFacts& facts) {
  std::vector<Variable> variables;
  add_devices(task, facts, variables);
  add_job(facts, variables);
  add_mirror(task, variables);
  return variables;
}

EnvironmentChange decide_environment(const std::vector<Variable>& derived, const Lookup& lookup,
                                     const std::vector<std::string>& not_from_user) {
  EnvironmentChange change;
  const auto outer = split_names(lookup("MUSTER_SET").value_or(""));
  std::string set;
  std::string kept;
  for (const auto& variable : derived) {
    const bool ours = variable.name.starts_with("MUSTER_");
    const bool replaceable =
        ours || outer.contains(variable.name) ||
        std::find(not_from_user.begin(), not_from_user.end(), variable.name) != not_from_user.end();
    const auto found = replaceable ? std::nullopt : lookup(variable.name);
    if (found) {
      change.kept.push_back({variable.name, *found, "set already"});
      append(kept, variable.name);
    } else {
      change.set.push_back(variable);
      if (!ours) append(set, variable.name);
    }
  }
  change.set.push_back({"MUSTER_SET", set, "the variables set by this step"});
  change.set.push_back({"MUSTER_KEPT", kept, "the variables found set and left alone"});
  return change;
}

int master_port(std::uint32_t uid, std::uint32_t job_id, std::uint32_t step_id) {
  constexpr std::uint64_t first = 10000;
  constexpr std::uint64_t count = 20000;
  // Coprime multipliers (19 and 20000 = 2^5 5^4 share no factor, nor do 7919 and 20000) keep consecutive jobs
  // 19 apart, so that their first 19 steps do not meet, and step k of one job a different port for 20000
  // consecutive k.
  return static_cast<int>(first + (std::uint64_t{job_id} * 19 + step_id + std::uint64_t{uid} * 7919) % count);
}

}  // namespace muster::placement
