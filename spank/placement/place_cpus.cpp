// SPDX-License-Identifier: Apache-2.0
#include "placement/place_cpus.hpp"

#include <algorithm>
#include <numeric>

#include "placement/place_reasons.hpp"
#include "placement/transport.hpp"

namespace muster::placement {

namespace {

/// Of what each task gets how much: a unit is one hardware thread per core, a whole core, or a single
/// hardware thread.
struct Grain {
  enum class Unit { first_thread, whole_core, thread } unit = Unit::first_thread;
  int units_per_task = 0;
  int cpus_per_task = 0;  // what to trim a task's whole cores down to; 0: keep all
  int repeats = 1;        // tasks that may share one unit
  std::string warning;
};

struct Supply {
  int cores = 0;
  int threads = 0;
  int fewest_threads = 0;  // on one core
};

Supply count(const Node& node, const CpuSet& allotted) {
  Supply supply;
  for (const auto& core : node.cores) {
    const int threads = (core.cpus & allotted).size();
    if (threads == 0) continue;
    supply.fewest_threads = supply.cores == 0 ? threads : std::min(supply.fewest_threads, threads);
    ++supply.cores;
    supply.threads += threads;
  }
  return supply;
}

/// Equal shares, when no size is asked for or the size asked for cannot be had.
Grain equal_shares(const Supply& supply, int tasks, bool hardware_threads) {
  Grain grain;
  if (supply.cores >= tasks) {
    grain.unit = hardware_threads ? Grain::Unit::whole_core : Grain::Unit::first_thread;
    grain.units_per_task = supply.cores / tasks;
    return grain;
  }
  grain.unit = Grain::Unit::thread;
  const std::string scarce = plural(tasks, "task") + " on " + plural(supply.cores, "allotted core");
  if (supply.threads >= tasks) {
    grain.units_per_task = supply.threads / tasks;
    grain.warning =
        scarce +
        ": tasks share cores, each with hardware threads of its own; allot more CPUs (--cpus-per-task)";
  } else {
    grain.units_per_task = 1;
    grain.repeats = (tasks + supply.threads - 1) / supply.threads;
    grain.warning = scarce + ": up to " + std::to_string(grain.repeats) +
                    " tasks share one CPU; allot more CPUs (--cpus-per-task)";
  }
  return grain;
}

Grain choose_grain(const Supply& supply, const Request& request) {
  const int tasks = request.tasks;
  const long wanted = request.cpus_per_task;
  if (wanted == 0) return equal_shares(supply, tasks, request.hardware_threads);
  Grain grain;
  grain.cpus_per_task = request.cpus_per_task;
  if (!request.hardware_threads && wanted * tasks <= supply.cores) {
    grain.units_per_task = request.cpus_per_task;
    return grain;
  }
  if (wanted * tasks <= supply.threads) {
    if (!request.hardware_threads) {
      grain.warning = plural(tasks, "task") + " with " + plural(request.cpus_per_task, "CPU") + " each on " +
                      plural(supply.cores, "allotted core") + ": hardware threads are used too";
    }
    const long whole = (wanted + supply.fewest_threads - 1) / supply.fewest_threads;
    const bool cores_suffice = whole * tasks <= supply.cores;
    grain.unit = cores_suffice ? Grain::Unit::whole_core : Grain::Unit::thread;
    grain.units_per_task = static_cast<int>(cores_suffice ? whole : wanted);
    return grain;
  }
  grain = equal_shares(supply, tasks, request.hardware_threads);
  const std::string less = plural(tasks, "task") + " with " + plural(request.cpus_per_task, "CPU") +
                           " each do not fit on the " + plural(supply.threads, "allotted CPU") +
                           ": each gets an equal share";
  grain.warning = grain.warning.empty() ? less : less + "; " + grain.warning;
  return grain;
}

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

/// A part of a task's share that should come from one domain.
struct Demand {
  std::size_t task = 0;
  std::size_t home = 0;  // index of the domain
  int units = 0;
};

/// A task with GPUs on several domains wants its units in proportion to them.
std::vector<Demand> split_demands(const Node& node, const std::vector<std::vector<int>>& homes,
                                  int units_per_task) {
  std::vector<Demand> demands;
  for (std::size_t task = 0; task < homes.size(); ++task) {
    const long parts = static_cast<long>(homes[task].size());
    for (long part = 0; part < parts; ++part) {
      const int units = static_cast<int>(units_per_task * (part + 1) / parts - units_per_task * part / parts);
      const auto* domain = node.find_domain(homes[task][static_cast<std::size_t>(part)]);
      demands.push_back({task, static_cast<std::size_t>(domain - node.domains.data()), units});
    }
  }
  return demands;
}

/// What one home of a task cannot give, its other homes may have left.
void fill_from_other_homes(std::vector<Demand>& demands, Stock& stock, std::vector<CpuSet>& cpus) {
  for (auto& demand : demands) {
    for (const auto& other : demands) {
      if (other.task == demand.task) demand.units -= stock.take(other.home, demand.units, cpus[demand.task]);
    }
  }
}

/// What the homes cannot give comes from elsewhere, all tasks together at the smallest sum of distances.
void fill_from_afar(const Node& node, std::vector<Demand>& demands, Stock& stock, std::vector<CpuSet>& cpus) {
  const std::size_t domains = stock.domains();
  std::vector<int> wanted(domains);
  for (const auto& demand : demands) wanted[demand.home] += demand.units;
  if (std::accumulate(wanted.begin(), wanted.end(), 0) == 0) return;
  std::vector<int> left(domains);
  std::vector<std::vector<int>> distance(domains, std::vector<int>(domains));
  for (std::size_t i = 0; i < domains; ++i) {
    left[i] = stock.left(i);
    for (std::size_t j = 0; j < domains; ++j) {
      distance[i][j] = node.domain_distance(node.domains[i].id, node.domains[j].id);
    }
  }
  auto flow = cheapest_transport(wanted, left, distance);
  std::vector<std::size_t> nearest(domains);
  for (auto& demand : demands) {
    std::iota(nearest.begin(), nearest.end(), std::size_t{0});
    std::stable_sort(nearest.begin(), nearest.end(), [&](std::size_t a, std::size_t b) {
      return distance[demand.home][a] < distance[demand.home][b];
    });
    for (const auto domain : nearest) {
      const int taken =
          stock.take(domain, std::min(demand.units, flow[demand.home][domain]), cpus[demand.task]);
      flow[demand.home][domain] -= taken;
      demand.units -= taken;
    }
  }
}

/// Tasks that are near to nothing in particular are spread over the domains that have units left, each task
/// within as few domains as possible.
void fill_homeless(const Node& node, const std::vector<std::vector<int>>& homes, int units_per_task,
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
        return node.domain_distance(node.domains[start].id, node.domains[domain].id);
      };
      return std::pair(a != start, key(a)) < std::pair(b != start, key(b));
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
                     const std::vector<std::vector<int>>& homes) {
  const Grain grain = choose_grain(count(node, allotted), request);
  CpuShares shares;
  shares.cpus.resize(homes.size());
  Stock stock(node, allotted, grain);
  auto demands = split_demands(node, homes, grain.units_per_task);
  for (auto& demand : demands)
    demand.units -= stock.take(demand.home, demand.units, shares.cpus[demand.task]);
  fill_from_other_homes(demands, stock, shares.cpus);
  fill_from_afar(node, demands, stock, shares.cpus);
  fill_homeless(node, homes, grain.units_per_task, stock, shares.cpus);
  if (grain.unit == Grain::Unit::whole_core && grain.cpus_per_task > 0) {
    for (auto& cpus : shares.cpus) trim(node, cpus, grain.cpus_per_task);
  }
  if (!grain.warning.empty()) shares.warnings.push_back(grain.warning);
  return shares;
}

}  // namespace muster::placement
