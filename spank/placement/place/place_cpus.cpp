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

/// The units of each domain (by index), in core order; taken from the front.
class Stock {
 public:
  Stock(const Node& node, const CpuSet& allotted, const Grain& grain)
      : units_(node.domains.size()), next_(units_.size()) {
    for (int round = 0; round < grain.repeats; ++round) {
      for (const auto& core : node.cores) {
        const CpuSet cpus = core.cpus & allotted;
        if (cpus.empty()) continue;
        auto& units = units_[static_cast<std::size_t>(node.find_domain(core.domain) - node.domains.data())];
        if (grain.unit == Grain::Unit::whole_core) {
          units.push_back(cpus);
        } else if (grain.unit == Grain::Unit::first_thread) {
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

/// A part of a task's share: what it should have for one of its GPUs.
struct Demand {
  std::size_t task = 0;
  std::size_t source = 0;
  int units = 0;
};

/// What demands from the same home, by tasks that are near to the same domains, have in common.
struct Source {
  int home = -1;
  std::set<int> near;
  friend auto operator<=>(const Source&, const Source&) = default;
};

struct Demands {
  std::vector<Demand> list;  // in the order of tasks
  std::vector<Source> sources;
};

/// A task with GPUs on several domains wants its units in proportion to them.
Demands split_demands(const std::vector<std::vector<Home>>& homes, int units_per_task) {
  Demands demands;
  std::map<Source, std::size_t> known;
  for (std::size_t task = 0; task < homes.size(); ++task) {
    std::set<int> near;
    for (const auto& home : homes[task]) near.insert(home.near.begin(), home.near.end());
    const long parts = static_cast<long>(homes[task].size());
    for (long part = 0; part < parts; ++part) {
      const int units = static_cast<int>(units_per_task * (part + 1) / parts - units_per_task * part / parts);
      Source source{homes[task][static_cast<std::size_t>(part)].domain, near};
      const auto [at, is_new] = known.emplace(source, demands.sources.size());
      if (is_new) demands.sources.push_back(std::move(source));
      demands.list.push_back({task, at->second, units});
    }
  }
  return demands;
}

/// What a unit costs: first as few as possible off the domains near to the task's GPUs, of those the sum of
/// distances, and last as few as possible off the home.
std::int64_t cost_of(const Node& node, const Source& source, int domain) {
  constexpr std::int64_t most_units = CpuSet::limit;
  constexpr int farthest = 1023;  // ACPI's distances are bytes
  constexpr std::int64_t distance_step = most_units + 1;
  constexpr std::int64_t remote_step = most_units * distance_step * farthest + 1;
  if (domain == source.home) return 0;
  if (source.near.contains(domain)) return 1;
  int distance = farthest;
  for (const int near : source.near) distance = std::min(distance, node.domain_distance(near, domain));
  return remote_step + distance_step * std::max(distance, 0);
}

/// All tasks together, at the smallest sum of costs.
void fill_near_and_far(const Node& node, Demands demands, Stock& stock, std::vector<CpuSet>& cpus) {
  std::vector<int> wanted(demands.sources.size()), left(stock.domains());
  for (const auto& demand : demands.list) wanted[demand.source] += demand.units;
  std::vector<std::vector<std::int64_t>> cost(wanted.size(), std::vector<std::int64_t>(left.size()));
  for (std::size_t j = 0; j < left.size(); ++j) {
    left[j] = stock.left(j);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      cost[i][j] = cost_of(node, demands.sources[i], node.domains[j].id);
  }
  auto flow = cheapest_transport(wanted, left, cost);
  const auto hand_out = [&](Demand& demand, std::size_t domain) {
    auto& amount = flow[demand.source][domain];
    const int taken = stock.take(domain, std::min(demand.units, amount), cpus[demand.task]);
    amount -= taken;
    demand.units -= taken;
  };
  std::vector<std::vector<std::size_t>> nearest(wanted.size(), std::vector<std::size_t>(left.size()));
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    std::iota(nearest[i].begin(), nearest[i].end(), std::size_t{0});
    std::stable_sort(nearest[i].begin(), nearest[i].end(),
                     [&](std::size_t a, std::size_t b) { return cost[i][a] < cost[i][b]; });
  }
  // First what is at home, so that a domain's own tasks have the first of its cores.
  for (auto& demand : demands.list) hand_out(demand, nearest[demand.source].front());
  for (auto& demand : demands.list) {
    for (const auto domain : nearest[demand.source]) hand_out(demand, domain);
  }
}

/// Tasks that are near to nothing in particular are spread over the domains that have units left, each task
/// within one domain if one has enough for it, and else within few.
void fill_homeless(const Node& node, const std::vector<std::vector<Home>>& homes, int units_per_task,
                   Stock& stock, std::vector<CpuSet>& cpus) {
  std::vector<std::size_t> open;
  for (std::size_t domain = 0; domain < stock.domains(); ++domain) {
    if (stock.left(domain) > 0) open.push_back(domain);
  }
  const auto homeless = static_cast<std::size_t>(
      std::count_if(homes.begin(), homes.end(), [](const auto& domains) { return domains.empty(); }));
  std::size_t index = 0;
  for (std::size_t task = 0; task < homes.size(); ++task) {
    if (!homes[task].empty() || open.empty()) continue;
    const std::size_t start = open[index++ * open.size() / homeless];
    std::vector<std::size_t> order = open;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const auto key = [&](std::size_t domain) {
        return std::tuple(stock.left(domain) < units_per_task, domain != start,
                          node.domain_distance(node.domains[start].id, node.domains[domain].id));
      };
      return key(a) < key(b);
    });
    int wanted = units_per_task;
    for (const auto domain : order) wanted -= stock.take(domain, wanted, cpus[task]);
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

CpuShares share_cpus(const Node& node, const Request& request, const CpuSet& allotted,
                     const std::vector<std::vector<Home>>& homes) {
  const Grain grain = choose_grain(node, request, allotted, homes);
  CpuShares shares;
  shares.cpus.resize(homes.size());
  shares.idle_cores = grain.idle_cores;
  Stock stock(node, allotted, grain);
  fill_near_and_far(node, split_demands(homes, grain.units_per_task), stock, shares.cpus);
  fill_homeless(node, homes, grain.units_per_task, stock, shares.cpus);
  if (grain.unit == Grain::Unit::whole_core) {
    int fewest = grain.cpus_per_task;  // cores may have unequal numbers of allotted threads
    for (const auto& cpus : shares.cpus) {
      if (grain.cpus_per_task == 0) fewest = fewest == 0 ? cpus.size() : std::min(fewest, cpus.size());
    }
    for (auto& cpus : shares.cpus) trim(node, cpus, fewest);
  }
  if (!grain.warning.empty()) shares.warnings.push_back(grain.warning);
  return shares;
}

}  // namespace muster::placement
