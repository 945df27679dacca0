// SPDX-License-Identifier: Apache-2.0
#include "properties.hpp"

#include <algorithm>
#include <map>

#include "catch.hpp"
#include "placement/report/report_json.hpp"

namespace muster::placement::test {

namespace {

CpuSet allotted(const Node& node, const Request& request) {
  return request.cpus.empty() ? node.cpus() : request.cpus & node.cpus();
}

int cores_among(const Node& node, const CpuSet& cpus) {
  return static_cast<int>(std::count_if(node.cores.begin(), node.cores.end(),
                                        [&](const Core& core) { return core.cpus.intersects(cpus); }));
}

/// Every GPU or instance goes to exactly one task, in PCI order; shared GPUs go evenly to consecutive tasks.
void check_gpus(const Request& request, const Placement& placement) {
  std::vector<std::pair<PciAddress, std::string>> given;
  std::map<std::pair<PciAddress, std::string>, int> users;
  for (const auto& task : placement.tasks) {
    for (const auto& gpu : task.gpus) {
      const auto key = std::pair(gpu.pci, gpu.mig ? gpu.uuid : std::string());
      if (++users[key] == 1) given.push_back(key);
    }
  }
  REQUIRE(std::is_sorted(given.begin(), given.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; }));
  int fewest = 1 << 30, most = 0;
  for (const auto& [key, tasks] : users) {
    fewest = std::min(fewest, tasks);
    most = std::max(most, tasks);
  }
  if (!users.empty()) REQUIRE(most <= std::max(request.tasks_per_gpu, 1));
  if (!users.empty()) REQUIRE(most - fewest <= 1);
  for (const auto& [pci, uuid] : given) {
    const bool whole = std::count(request.gpus.begin(), request.gpus.end(), pci) == 1;
    const bool instance = std::any_of(request.mig.begin(), request.mig.end(),
                                      [&, &address = pci, &name = uuid](const auto& mig) {
                                        return mig.parent == address && mig.uuid == name;
                                      });
    REQUIRE((uuid.empty() ? whole : instance));
  }
  if (request.gpus_per_task == 0) {
    std::set<PciAddress> parents;
    for (const auto& mig : request.mig) parents.insert(mig.parent);
    const auto whole = std::count_if(request.gpus.begin(), request.gpus.end(),
                                     [&](const PciAddress& pci) { return !parents.contains(pci); });
    REQUIRE(given.size() == request.mig.size() + static_cast<std::size_t>(whole));
  }
}

/// CPU sets are disjoint, of equal size and within the allotment; whole cores come first.
void check_cpu_sets(const Node& node, const Request& request, const Placement& placement) {
  const CpuSet all = allotted(node, request);
  const int cores = cores_among(node, all);
  CpuSet used;
  bool disjoint = true;
  for (const auto& task : placement.tasks) {
    REQUIRE_FALSE(task.cpus.empty());
    REQUIRE(task.cpus.is_subset_of(all));
    REQUIRE(task.cpus.size() == placement.tasks.front().cpus.size());
    REQUIRE(task.cores == cores_among(node, task.cpus));
    disjoint = disjoint && !used.intersects(task.cpus);
    used |= task.cpus;
  }
  REQUIRE(disjoint == (request.tasks <= all.size()));
  const int each = std::max(request.cpus_per_task, 1);
  const bool cores_suffice = request.tasks * each <= cores;
  if (cores_suffice && request.cpus_per_task > 0)
    REQUIRE(placement.tasks.front().cpus.size() == request.cpus_per_task);
  for (const auto& core : node.cores) {
    if (cores_suffice && !request.hardware_threads) REQUIRE((core.cpus & used).size() <= 1);
    const auto tasks_on_it =
        std::count_if(placement.tasks.begin(), placement.tasks.end(),
                      [&](const TaskPlacement& task) { return task.cpus.intersects(core.cpus); });
    if (cores_suffice) REQUIRE(tasks_on_it <= 1);
  }
}

/// For requests without a size: the most cores that every task can get near to its GPUs, by Hall's condition
/// over all groups of tasks that are near to the same domains; 0 if another rule decides the size.
int local_share(const Node& node, const Request& request, const Placement& placement) {
  if (request.cpus_per_task > 0) return 0;
  std::map<std::set<int>, int> groups;
  for (const auto& task : placement.tasks) {
    const auto near = expected_near(node, task);
    if (near.empty()) return 0;
    ++groups[near];
  }
  const std::vector<std::pair<std::set<int>, int>> list(groups.begin(), groups.end());
  const CpuSet all = allotted(node, request);
  int share = cores_among(node, all) / request.tasks;
  for (unsigned chosen = 1; chosen < 1u << list.size(); ++chosen) {
    CpuSet cpus;
    int tasks = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if ((chosen >> i & 1) == 0) continue;
      for (const int id : list[i].first) cpus |= node.find_domain(id)->cpus;
      tasks += list[i].second;
    }
    share = std::min(share, cores_among(node, cpus & all) / tasks);
  }
  return share;
}

/// No task gets a remote core while a local one is idle.
void check_locality(const Node& node, const Request& request, const Placement& placement) {
  const CpuSet all = allotted(node, request);
  const int share = local_share(node, request, placement);
  CpuSet used;
  for (const auto& task : placement.tasks) used |= task.cpus;
  for (const auto& task : placement.tasks) {
    const auto near = expected_near(node, task);
    CpuSet local;
    for (const int id : near) local |= node.find_domain(id)->cpus;
    const Distance expected = near.empty()                    ? Distance::unknown
                              : task.cpus.is_subset_of(local) ? Distance::node
                                                              : Distance::sys;
    REQUIRE(task.gpu_cpu == expected);
    if (share > 0) {
      REQUIRE(task.cores == share);
      REQUIRE(task.gpu_cpu == Distance::node);
    }
    if (task.gpu_cpu != Distance::sys) continue;
    for (const auto& core : node.cores) {
      const bool idle = core.cpus.intersects(all) && !core.cpus.intersects(used);
      REQUIRE_FALSE((idle && near.contains(core.domain)));
    }
  }
}

bool is_ordinary(const NumaDomain& domain) {
  return !domain.gpu_memory && !domain.cpus.empty() && domain.memory_bytes != std::uint64_t{0};
}

/// Memory comes from ordinary domains only, and no other such domain is nearer to the GPUs.
void check_memory(const Node& node, const Request& request, const TaskPlacement& task) {
  REQUIRE(request.memory.empty());
  REQUIRE_FALSE(task.memory.empty());
  const auto near = expected_near(node, task);
  for (const int id : task.memory) {
    REQUIRE(is_ordinary(*node.find_domain(id)));
    if (near.empty() || near.contains(id)) continue;
    const bool nearest_of_one = std::any_of(near.begin(), near.end(), [&](int from) {
      return std::all_of(node.domains.begin(), node.domains.end(), [&](const NumaDomain& other) {
        return !is_ordinary(other) || node.domain_distance(from, id) <= node.domain_distance(from, other.id);
      });
    });
    REQUIRE(nearest_of_one);
  }
}

std::vector<int> expected_near(const Node& node, int domain, const std::vector<int>& several) {
  Gpu gpu;
  gpu.domain = domain;
  gpu.near_domains = several;
  gpu.pci.bus = 0xff;
  Node with = node;
  with.gpus = {gpu};
  TaskPlacement task;
  task.gpus = {{gpu.pci, "", domain}};
  const auto near = test::expected_near(with, task);
  return {near.begin(), near.end()};
}

/// Only usable NICs are chosen, and gpu_nic is the largest distance of a GPU to its nearest NIC.
void check_nics(const Node& node, const TaskPlacement& task) {
  for (const auto& placed : task.nics) {
    const auto at = std::find_if(node.nics.begin(), node.nics.end(), [&](const Nic& nic) {
      return nic.label() == placed.label && nic.port == placed.port;
    });
    REQUIRE(at != node.nics.end());
    REQUIRE(at->usable);
    REQUIRE((task.gpus.empty() || placed.distance <= task.gpu_nic));
  }
  const bool any = std::any_of(node.nics.begin(), node.nics.end(), [](const Nic& nic) { return nic.usable; });
  REQUIRE(task.nics.empty() != any);
  Distance worst = any && !task.gpus.empty() ? Distance::pix : Distance::unknown;
  for (const auto& placed : task.gpus) {
    const Gpu& gpu = *node.find_gpu(placed.pci);
    const auto near = expected_near(node, gpu.domain, gpu.near_domains);
    Distance nearest = Distance::unknown;
    for (const auto& nic : node.nics) {
      if (!nic.usable) continue;
      nearest = std::min(nearest, device_distance(gpu.path, near, nic.path,
                                                  expected_near(node, nic.domain, nic.near_domains)));
    }
    worst = std::max(worst, nearest);
  }
  REQUIRE(task.gpu_nic == worst);
}

}  // namespace

std::set<int> expected_near(const Node& node, const TaskPlacement& task) {
  std::vector<int> with_cpus;
  for (const auto& domain : node.domains) {
    if (!domain.cpus.empty()) with_cpus.push_back(domain.id);
  }
  const auto has_cpus = [&](int id) { return std::count(with_cpus.begin(), with_cpus.end(), id) == 1; };
  std::set<int> near;
  for (const auto& placed : task.gpus) {
    const Gpu& gpu = *node.find_gpu(placed.pci);
    if (has_cpus(gpu.domain)) {
      near.insert(gpu.domain);
    } else if (gpu.domain >= 0) {
      int least = 1 << 30;
      for (const int id : with_cpus) least = std::min(least, node.domain_distance(gpu.domain, id));
      std::set<int> nearest;
      for (const int id : with_cpus)
        if (node.domain_distance(gpu.domain, id) == least) nearest.insert(id);
      if (nearest.size() > 1 && nearest.size() == with_cpus.size()) return {};
      near.merge(nearest);
    } else if (with_cpus.size() == 1) {
      near.insert(with_cpus.front());
    } else if (gpu.near_domains.empty()) {
      return {};
    } else {
      for (const int id : gpu.near_domains) near.insert(id);
    }
  }
  return near;
}

void check_properties(const Node& node, const Request& request, const Placement& placement) {
  REQUIRE(placement.tasks.size() == static_cast<std::size_t>(request.tasks));
  check_gpus(request, placement);
  check_cpu_sets(node, request, placement);
  check_locality(node, request, placement);
  for (const auto& task : placement.tasks) {
    REQUIRE(task.local_rank == &task - placement.tasks.data());
    check_memory(node, request, task);
    check_nics(node, task);
    for (const auto& reason : task.reasons) REQUIRE(reason.find('\n') == std::string::npos);
    REQUIRE(task.reasons.size() >= 3);
  }
}

Node shuffled(Node node, std::mt19937& random) {
  std::vector<std::size_t> order(node.domains.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  const auto domains = node.domains;
  for (std::size_t i = 0; i < order.size(); ++i) {
    node.domains[i] = domains[order[i]];
    if (domains[order[i]].distances.size() != order.size()) continue;
    for (std::size_t j = 0; j < order.size(); ++j)
      node.domains[i].distances[j] = domains[order[i]].distances[order[j]];
  }
  std::shuffle(node.cores.begin(), node.cores.end(), random);
  std::shuffle(node.gpus.begin(), node.gpus.end(), random);
  std::shuffle(node.nics.begin(), node.nics.end(), random);
  finish(node);
  return node;
}

Request shuffled(Request request, std::mt19937& random) {
  std::shuffle(request.gpus.begin(), request.gpus.end(), random);
  std::shuffle(request.memory.begin(), request.memory.end(), random);
  return request;
}

std::string as_text(const Node& node, const Placement& placement) { return report_json(node, placement, {}); }

}  // namespace muster::placement::test
