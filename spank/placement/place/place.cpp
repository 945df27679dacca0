// SPDX-License-Identifier: Apache-2.0
#include "placement/place/place.hpp"

#include <algorithm>

#include "placement/place/explain_placement.hpp"
#include "placement/place/place_cpus.hpp"
#include "placement/place/place_gpus.hpp"
#include "placement/place/place_nics.hpp"

namespace muster::placement {

namespace {

void check(const Node& node, const Request& request) {
  if (request.tasks < 1 || request.tasks > 65536) {
    throw Error("Cannot place " + std::to_string(request.tasks) + " tasks: the number must be 1 to 65536.");
  }
  if (request.gpus_per_task < 0 || request.cpus_per_task < 0) {
    throw Error("GPUs and CPUs per task cannot be negative (got " + std::to_string(request.gpus_per_task) +
                " and " + std::to_string(request.cpus_per_task) + ").");
  }
  if (request.tasks_per_gpu < 1) {
    throw Error("At least one task must be allowed on a GPU (got " + std::to_string(request.tasks_per_gpu) +
                ").");
  }
  for (const auto& core : node.cores) {
    if (node.find_domain(core.domain) == nullptr) {
      throw Error("The model of " + host_name(node) + " has cores on NUMA domain " +
                  std::to_string(core.domain) + " but no such domain.");
    }
    if (core.cpus.empty() || !core.cpus.is_subset_of(node.find_domain(core.domain)->cpus)) {
      throw Error("The model of " + host_name(node) + " has a core on NUMA domain " +
                  std::to_string(core.domain) + " whose CPUs are not the domain's: finish() was not called.");
    }
  }
}

void add_once(std::vector<int>& list, int value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

/// The domains to prefer for memory: for each source the nearest domain of a processor that has memory.
std::vector<int> choose_memory(const Node& node, const Request& request, const std::vector<int>& sources) {
  const auto allowed = [&](const NumaDomain& domain) {
    return request.memory.empty() ||
           std::find(request.memory.begin(), request.memory.end(), domain.id) != request.memory.end();
  };
  const auto has_memory = [&](const NumaDomain& domain) {
    return allowed(domain) && !domain.gpu_memory && domain.memory_bytes != std::uint64_t{0};
  };
  const auto ordinary = [&](const NumaDomain& domain) {
    return domain.has_processor() && has_memory(domain);
  };
  std::vector<int> memory;
  for (const int source : sources) {
    auto nearest = nearest_domains(node, source, ordinary);
    // Memory without CPUs (CXL) is better than none.
    if (nearest.empty()) nearest = nearest_domains(node, source, has_memory);
    if (!nearest.empty()) add_once(memory, nearest.front());
  }
  return memory;
}

/// The nearest NICs of each GPU of the node, allotted or not; of each task if the step has no GPUs.
std::vector<NicChoice> nic_choices(const Node& node, const Placement& placement, bool by_task) {
  std::vector<Anchor> anchors;
  if (by_task) {
    for (const auto& task : placement.tasks) {
      const auto domains = find_domains(node, task.cpus);
      anchors.push_back({{}, {domains.front()}});  // the domain that has the most of its CPUs
    }
  } else {
    for (const auto& gpu : node.gpus)
      anchors.push_back({gpu.path, local_domains(node, gpu.domain, gpu.near_domains)});
  }
  return choose_near_nics(node, anchors);
}

template <typename Nics>
auto find_nic(Nics& placed, const Nic& nic) {
  return std::find_if(placed.begin(), placed.end(),
                      [&](const PlacedNic& one) { return one.label == nic.label() && one.port == nic.port; });
}

void add_nics(const Node& node, const NicChoice& choice, TaskPlacement& task) {
  const bool first = task.nics.empty();
  for (const auto index : choice.nics) {
    const Nic& nic = node.nics[index];
    const auto same = find_nic(task.nics, nic);
    if (same == task.nics.end()) {
      task.nics.push_back({nic.label(), nic.name, nic.port, nic.kind, choice.distance});
    } else {
      same->distance = std::min(same->distance, choice.distance);
    }
  }
  task.gpu_nic = first ? choice.distance : std::max(task.gpu_nic, choice.distance);
}

void attach_nics(const Node& node, Placement& placement) {
  const bool by_task = std::all_of(placement.tasks.begin(), placement.tasks.end(),
                                   [](const TaskPlacement& task) { return task.gpus.empty(); });
  const auto choices = nic_choices(node, placement, by_task);
  for (auto& task : placement.tasks) {
    if (by_task) {
      add_nics(node, choices[static_cast<std::size_t>(task.local_rank)], task);
      task.gpu_nic = Distance::unknown;
    }
    for (const auto& gpu : task.gpus) {
      add_nics(node, choices[static_cast<std::size_t>(node.find_gpu(gpu.pci) - node.gpus.data())], task);
    }
    task.reasons.push_back(explain_nics(node, task));
  }
  std::vector<PlacedNic> all;
  for (const auto& nic : node.nics) {
    for (const auto& task : placement.tasks) {
      const auto at = find_nic(task.nics, nic);
      if (at == task.nics.end()) continue;
      all.push_back(*at);
      break;
    }
  }
  for (auto& task : placement.tasks) task.node_nics = all;
}

/// The local domains of each task's GPUs; an empty list for a task with a GPU of unknown locality.
std::vector<std::vector<LocalDomains>> task_local_domains(const Node& node,
                                                          const std::vector<std::vector<Device>>& devices) {
  const auto locality = gpu_local_domains(node);
  std::vector<std::vector<LocalDomains>> of_tasks(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (const auto& device : devices[i])
      of_tasks[i].push_back(locality[static_cast<std::size_t>(device.gpu - node.gpus.data())]);
    const bool unknown = std::any_of(of_tasks[i].begin(), of_tasks[i].end(),
                                     [](const LocalDomains& gpu) { return gpu.near.empty(); });
    if (unknown) of_tasks[i].clear();
  }
  return of_tasks;
}

/// The domains to take memory from. They are the GPUs' own domains, even where their CPUs are hidden. If a
/// GPU is near to several domains, only those count that have cores of the task. Without a GPU of known
/// locality, they are the domains of the cores.
std::vector<int> memory_sources(const Node& node, const CpuSet& cpus,
                                const std::vector<LocalDomains>& locality) {
  auto with_cpus = find_domains(node, cpus);
  if (locality.empty()) return with_cpus;
  std::vector<int> sources;
  for (const auto& gpu : locality) {
    const auto before = sources.size();
    for (const int domain : gpu.hidden) add_once(sources, domain);
    if (!gpu.hidden.empty()) continue;
    for (const int domain : with_cpus) {
      const bool near = std::find(gpu.near.begin(), gpu.near.end(), domain) != gpu.near.end();
      if (gpu.near.size() > 1 && near) add_once(sources, domain);
    }
    if (sources.size() == before) add_once(sources, gpu.preferred);
  }
  return sources;
}

/// Sets what follows from the task's GPUs and CPUs: memory, distance and reasons.
void complete_task(const Node& node, const Request& request, const std::vector<LocalDomains>& locality,
                   TaskPlacement& task) {
  for (const auto& core : node.cores) task.cores += core.cpus.intersects(task.cpus) ? 1 : 0;
  std::vector<int> near, hidden;
  for (const auto& gpu : locality) {
    for (const int domain : gpu.near) add_once(near, domain);
    for (const int domain : gpu.hidden) add_once(hidden, domain);
  }
  CpuSet near_cpus;
  for (const int domain : near) near_cpus |= node.find_domain(domain)->cpus;
  const bool local = hidden.empty() && task.cpus.is_subset_of(near_cpus);
  if (!near.empty()) task.gpu_cpu = local ? Distance::node : Distance::sys;
  const auto sources = memory_sources(node, task.cpus, locality);
  task.memory = choose_memory(node, request, sources);
  task.reasons.push_back(explain_cpus(node, task, near, hidden));
  task.reasons.push_back(explain_memory(task, sources, !near.empty()));
}

CpuSet allotted_cpus(const Node& node, const Request& request, Placement& placement) {
  CpuSet all = node.cpus();
  if (request.cpus.empty()) {
    if (all.empty()) throw Error("The model of " + host_name(node) + " has no CPUs.");
    return all;
  }
  CpuSet allotted = request.cpus & all;
  if (allotted.empty()) {
    throw Error("None of the allotted CPUs " + request.cpus.to_list() + " is on " + host_name(node) +
                ", which has " + all.to_list() + ".");
  }
  if (const CpuSet foreign = request.cpus - all; !foreign.empty()) {
    placement.warnings.push_back("allotted CPUs " + foreign.to_list() + " are not on " + host_name(node) +
                                 " and left out");
  }
  return allotted;
}

}  // namespace

Placement place(const Node& node, const Request& request) {
  check(node, request);
  Placement placement;
  const CpuSet allotted = allotted_cpus(node, request, placement);
  const auto gpus = assign_gpus(node, request, placement.warnings);
  const auto locality = task_local_domains(node, gpus);
  auto partition = partition_cpus(node, request, allotted, locality);
  placement.warnings.insert(placement.warnings.end(), partition.warnings.begin(), partition.warnings.end());
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    TaskPlacement task;
    task.local_rank = static_cast<int>(i);
    for (const auto& [gpu, uuid, mig] : gpus[i]) task.gpus.push_back({gpu->pci, uuid, gpu->domain, mig});
    task.cpus = partition.cpus[i];
    complete_task(node, request, locality[i], task);
    placement.tasks.push_back(std::move(task));
  }
  if (auto idle = explain_idle(node, request, allotted, placement, partition); !idle.empty())
    placement.notes.push_back(std::move(idle));
  attach_nics(node, placement);
  explain_gpus(placement);
  return placement;
}

}  // namespace muster::placement
