// SPDX-License-Identifier: Apache-2.0
#include "placement/place/explain_placement.hpp"

#include <algorithm>
#include <limits>

namespace muster::placement {

namespace {

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

}  // namespace

std::string host_name(const Node& node) { return node.host.empty() ? "this node" : node.host; }

std::vector<int> find_domains(const Node& node, const CpuSet& cpus) {
  std::vector<std::pair<int, int>> found;
  for (const auto& domain : node.domains) {
    if (const int count = (domain.cpus & cpus).size(); count > 0) found.emplace_back(-count, domain.id);
  }
  std::stable_sort(found.begin(), found.end());
  std::vector<int> ids;
  for (const auto& [count, id] : found) ids.push_back(id);
  return ids;
}

std::string explain_cpus(const Node& node, const TaskPlacement& task, const std::vector<int>& near,
                         const std::vector<int>& hidden) {
  if (near.empty() && task.gpus.empty()) return "no GPU: cores shared out evenly";
  if (near.empty()) {
    const auto with_cpus = std::count_if(node.domains.begin(), node.domains.end(),
                                         [](const NumaDomain& domain) { return !domain.cpus.empty(); });
    return "the machine does not say which of its " + std::to_string(with_cpus) +
           " NUMA domains the GPU is near to: cores shared out evenly";
  }
  std::string text;
  for (const int domain : find_domains(node, task.cpus)) {
    int cores = 0;
    for (const auto& core : node.cores)
      cores += core.domain == domain && core.cpus.intersects(task.cpus) ? 1 : 0;
    const bool own = hidden.empty() && std::find(near.begin(), near.end(), domain) != near.end();
    text += (text.empty() ? "" : ", ") + plural(cores, "core") + " on NUMA " + std::to_string(domain);
    if (own) {
      text += node.domains.size() == 1 ? " (the only one)" : " (the GPU's)";
    } else {
      const auto& wanted = hidden.empty() ? near : hidden;
      int distance = std::numeric_limits<int>::max();
      for (const int from : wanted) distance = std::min(distance, node.domain_distance(from, domain));
      text += " (distance " + std::to_string(distance) + ": ";
      text += hidden.empty() ? "none left on " + joined(near)
                             : "the CPUs of " + joined(hidden) + " are not known";
      text += ")";
    }
  }
  return text;
}

std::string explain_idle(const Node& node, const Request& request, const CpuSet& allotted,
                         const Placement& placement, const CpuPartition& partition) {
  CpuSet used;
  for (const auto& task : placement.tasks) used |= task.cpus;
  int cores = 0, idle = 0;
  for (const auto& core : node.cores) {
    cores += core.cpus.intersects(allotted) ? 1 : 0;
    idle += core.cpus.intersects(allotted) && !core.cpus.intersects(used) ? 1 : 0;
  }
  if (idle == 0) return {};
  std::string why = "equal shares leave them over";
  if (partition.idle_cores > 0)
    why = "larger equal shares would not be near to the GPUs (--cpus-per-task uses them)";
  if (request.cpus_per_task > 0) why = "each task asks for " + plural(request.cpus_per_task, "CPU");
  return std::to_string(idle) + " of " + plural(cores, "core") + " idle: " + why;
}

std::string explain_memory(const TaskPlacement& task, const std::vector<int>& sources, bool of_gpus) {
  if (task.memory.empty()) return "no NUMA domain with ordinary memory is allowed: memory left as it is";
  if (!of_gpus) return "memory where the cores are";
  return task.memory == sources ? "memory on the GPU's NUMA domain"
                                : "memory on the nearest NUMA domain that has some";
}

std::string explain_nics(const Node& node, const TaskPlacement& task) {
  const std::string from = task.gpus.empty() ? "the cores" : "the GPU";
  std::string text;
  for (const auto& nic : task.nics) {
    text += (text.empty() ? "" : ", ") + nic.label + " " + to_string(nic.distance) + " from " + from;
  }
  if (!text.empty()) return text;
  if (node.nics.empty()) return "no RDMA NIC";
  text = "no usable NIC";
  for (const auto& nic : node.nics)
    text += (text == "no usable NIC" ? ": " : "; ") + nic.label() + ": " + nic.reason;
  return text;
}

void explain_gpus(Placement& placement) {
  const auto same = [](const TaskPlacement& a, const TaskPlacement& b) {
    return std::equal(a.gpus.begin(), a.gpus.end(), b.gpus.begin(), b.gpus.end(),
                      [](const PlacedGpu& x, const PlacedGpu& y) {
                        return x.pci == y.pci && x.uuid == y.uuid && !(x.mig && x.uuid.empty());
                      });
  };
  auto& tasks = placement.tasks;
  for (std::size_t first = 0; first < tasks.size();) {
    std::size_t end = first + 1;
    while (end < tasks.size() && !tasks[first].gpus.empty() && same(tasks[first], tasks[end])) ++end;
    for (std::size_t i = first; i < end; ++i) {
      if (end - first > 1)
        tasks[i].reasons.push_back("GPU shared by the tasks " + std::to_string(first) + " to " +
                                   std::to_string(end - 1) + ", as asked");
      if (std::any_of(tasks[i].gpus.begin(), tasks[i].gpus.end(),
                      [](const PlacedGpu& gpu) { return gpu.mig; }))
        tasks[i].reasons.emplace_back("MIG: locality is that of the parent GPU");
    }
    first = end;
  }
}

}  // namespace muster::placement
