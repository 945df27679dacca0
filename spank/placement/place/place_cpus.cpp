// SPDX-License-Identifier: Apache-2.0
#include "placement/place/place_cpus.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "placement/place/cpu_granularity.hpp"
#include "placement/place/min_cost_flow.hpp"

namespace muster::placement {

namespace {

/// The unassigned units of each domain (by index), in core order; take() removes them from the front.
class CoreInventory {
 public:
  CoreInventory(const Node& node, const CpuSet& allotted, const CpuGranularity& granularity)
      : units_(node.domains.size()), next_(units_.size()) {
    for (int round = 0; round < granularity.repeats; ++round) {
      for (const auto& core : node.cores) {
        const CpuSet cpus = core.cpus & allotted;
        if (cpus.empty()) continue;
        auto& units = units_[static_cast<std::size_t>(node.find_domain(core.domain) - node.domains.data())];
        if (granularity.unit == CpuGranularity::Unit::whole_core) {
          units.push_back(cpus);
        } else if (granularity.unit == CpuGranularity::Unit::first_thread) {
          units.push_back(CpuSet{cpus.first()});
        } else {
          for (int cpu = cpus.first(); cpu >= 0; cpu = cpus.next(cpu)) units.push_back(CpuSet{cpu});
        }
      }
    }
  }

  int left(std::size_t domain) const { return static_cast<int>(units_[domain].size() - next_[domain]); }
  std::size_t domains() const { return units_.size(); }

  /// Moves up to count units of a domain to a task; returns how many.
  int take(std::size_t domain, int count, CpuSet& task) {
    const int taken = std::min(count, left(domain));
    for (int i = 0; i < taken; ++i) task |= units_[domain][next_[domain]++];
    return taken;
  }

 private:
  std::vector<std::vector<CpuSet>> units_;
  std::vector<std::size_t> next_;
};

/// The part of a task's units that belongs to one of its GPUs.
struct DemandPart {
  std::size_t task = 0;
  std::size_t group = 0;
  int units = 0;
};

/// Demands with the same preferred domain, from tasks that are near to the same domains, cost the same.
struct DemandGroup {
  int preferred = -1;
  std::set<int> near;
  friend auto operator<=>(const DemandGroup&, const DemandGroup&) = default;
};

struct Demands {
  std::vector<DemandPart> list;  // in the order of tasks
  std::vector<DemandGroup> groups;
};

/// Splits the units of a task with GPUs on several domains in proportion to the GPUs.
Demands split_demands(const std::vector<std::vector<LocalDomains>>& locality, int units_per_task) {
  Demands demands;
  std::map<DemandGroup, std::size_t> group_index;
  for (std::size_t task = 0; task < locality.size(); ++task) {
    std::set<int> near;
    for (const auto& gpu : locality[task]) near.insert(gpu.near.begin(), gpu.near.end());
    const long parts = static_cast<long>(locality[task].size());
    for (long part = 0; part < parts; ++part) {
      const int units = static_cast<int>(units_per_task * (part + 1) / parts - units_per_task * part / parts);
      DemandGroup group{locality[task][static_cast<std::size_t>(part)].preferred, near};
      const auto [at, is_new] = group_index.emplace(group, demands.groups.size());
      if (is_new) demands.groups.push_back(std::move(group));
      demands.list.push_back({task, at->second, units});
    }
  }
  return demands;
}

/// The cost of a unit. Its three terms are ordered by weight: units off the domains near to the task's GPUs,
/// the sum of their distances, and units off the preferred domain.
std::int64_t unit_cost(const Node& node, const DemandGroup& group, int domain) {
  constexpr std::int64_t most_units = CpuSet::limit;
  constexpr int farthest = 1023;  // ACPI's distances are bytes
  constexpr std::int64_t distance_step = most_units + 1;
  constexpr std::int64_t remote_step = most_units * distance_step * farthest + 1;
  if (domain == group.preferred) return 0;
  if (group.near.contains(domain)) return 1;
  int distance = farthest;
  for (const int near : group.near) distance = std::min(distance, node.domain_distance(near, domain));
  return remote_step + distance_step * std::max(distance, 0);
}

/// Assigns units to all tasks of known locality at the smallest sum of costs.
void assign_near_then_far(const Node& node, Demands demands, CoreInventory& inventory,
                          std::vector<CpuSet>& cpus) {
  std::vector<int> wanted(demands.groups.size()), left(inventory.domains());
  for (const auto& demand : demands.list) wanted[demand.group] += demand.units;
  std::vector<std::vector<std::int64_t>> cost(wanted.size(), std::vector<std::int64_t>(left.size()));
  for (std::size_t j = 0; j < left.size(); ++j) {
    left[j] = inventory.left(j);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      cost[i][j] = unit_cost(node, demands.groups[i], node.domains[j].id);
  }
  auto flow = min_cost_flow(wanted, left, cost);
  const auto assign = [&](DemandPart& demand, std::size_t domain) {
    auto& amount = flow[demand.group][domain];
    const int taken = inventory.take(domain, std::min(demand.units, amount), cpus[demand.task]);
    amount -= taken;
    demand.units -= taken;
  };
  std::vector<std::vector<std::size_t>> nearest(wanted.size(), std::vector<std::size_t>(left.size()));
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    std::iota(nearest[i].begin(), nearest[i].end(), std::size_t{0});
    std::stable_sort(nearest[i].begin(), nearest[i].end(),
                     [&](std::size_t a, std::size_t b) { return cost[i][a] < cost[i][b]; });
  }
  // Preferred domains first, so that a domain's own tasks get its first cores.
  for (auto& demand : demands.list) assign(demand, nearest[demand.group].front());
  for (auto& demand : demands.list) {
    for (const auto domain : nearest[demand.group]) assign(demand, domain);
  }
}

/// Spreads the tasks without known locality over the domains that have units left: each task within one
/// domain if one has enough units, else within few.
void assign_without_locality(const Node& node, const std::vector<std::vector<LocalDomains>>& locality,
                             int units_per_task, CoreInventory& inventory, std::vector<CpuSet>& cpus) {
  std::vector<std::size_t> free_domains;
  for (std::size_t domain = 0; domain < inventory.domains(); ++domain) {
    if (inventory.left(domain) > 0) free_domains.push_back(domain);
  }
  const auto without_locality = static_cast<std::size_t>(
      std::count_if(locality.begin(), locality.end(), [](const auto& domains) { return domains.empty(); }));
  std::size_t index = 0;
  for (std::size_t task = 0; task < locality.size(); ++task) {
    if (!locality[task].empty() || free_domains.empty()) continue;
    const std::size_t start = free_domains[index++ * free_domains.size() / without_locality];
    std::vector<std::size_t> order = free_domains;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const auto key = [&](std::size_t domain) {
        return std::tuple(inventory.left(domain) < units_per_task, domain != start,
                          node.domain_distance(node.domains[start].id, node.domains[domain].id));
      };
      return key(a) < key(b);
    });
    int wanted = units_per_task;
    for (const auto domain : order) wanted -= inventory.take(domain, wanted, cpus[task]);
  }
}

/// Drops the highest hardware threads of the last cores until count CPUs remain.
void trim(const Node& node, CpuSet& cpus, int count) {
  for (auto core = node.cores.rbegin(); core != node.cores.rend() && cpus.size() > count; ++core) {
    auto threads = (core->cpus & cpus).to_vector();
    while (threads.size() > 1 && cpus.size() > count) {
      cpus.remove(threads.back());
      threads.pop_back();
    }
  }
}

}  // namespace

CpuPartition partition_cpus(const Node& node, const Request& request, const CpuSet& allotted,
                            const std::vector<std::vector<LocalDomains>>& locality) {
  const CpuGranularity granularity = choose_cpu_granularity(node, request, allotted, locality);
  CpuPartition partition;
  partition.cpus.resize(locality.size());
  partition.idle_cores = granularity.idle_cores;
  CoreInventory inventory(node, allotted, granularity);
  assign_near_then_far(node, split_demands(locality, granularity.units_per_task), inventory, partition.cpus);
  assign_without_locality(node, locality, granularity.units_per_task, inventory, partition.cpus);
  if (granularity.unit == CpuGranularity::Unit::whole_core) {
    int fewest = granularity.cpus_per_task;  // cores may have unequal numbers of allotted threads
    for (const auto& cpus : partition.cpus) {
      if (granularity.cpus_per_task == 0) fewest = fewest == 0 ? cpus.size() : std::min(fewest, cpus.size());
    }
    for (auto& cpus : partition.cpus) trim(node, cpus, fewest);
  }
  if (!granularity.warning.empty()) partition.warnings.push_back(granularity.warning);
  return partition;
}

}  // namespace muster::placement
