// SPDX-License-Identifier: Apache-2.0
#include "placement/place/cpu_granularity.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "placement/place/explain_placement.hpp"
#include "placement/place/min_cost_flow.hpp"

namespace muster::placement {

namespace {

struct Supply {
  int cores = 0;
  int threads = 0;
  int fewest_threads = 0;  // on one core
};

Supply count_supply(const Node& node, const CpuSet& allotted) {
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

/// Equal shares, for requests without a size and for sizes that do not fit.
CpuGranularity equal_shares(const Supply& supply, int tasks, bool hardware_threads) {
  CpuGranularity granularity;
  if (supply.cores >= tasks) {
    granularity.unit =
        hardware_threads ? CpuGranularity::Unit::whole_core : CpuGranularity::Unit::first_thread;
    granularity.units_per_task = supply.cores / tasks;
    return granularity;
  }
  granularity.unit = CpuGranularity::Unit::thread;
  const std::string scarce = plural(tasks, "task") + " on " + plural(supply.cores, "allotted core");
  if (supply.threads >= tasks) {
    granularity.units_per_task = supply.threads / tasks;
    granularity.warning =
        scarce +
        ": tasks share cores, each with hardware threads of its own; allot more CPUs (--cpus-per-task)";
  } else {
    granularity.units_per_task = 1;
    granularity.repeats = (tasks + supply.threads - 1) / supply.threads;
    granularity.warning = scarce + ": up to " + std::to_string(granularity.repeats) +
                          " tasks share one CPU; allot more CPUs (--cpus-per-task)";
  }
  return granularity;
}

/// The largest number of cores that every task can get on its own local domains; 0: some task gets none.
int most_local_cores(const Node& node, const CpuSet& allotted,
                     const std::vector<std::vector<LocalDomains>>& locality, int most) {
  std::map<std::set<int>, int> tasks_near;  // tasks with the same local domains are interchangeable
  for (const auto& task : locality) {
    std::set<int> near;
    for (const auto& gpu : task) near.insert(gpu.near.begin(), gpu.near.end());
    ++tasks_near[near];
  }
  std::vector<int> supply(node.domains.size());
  for (const auto& core : node.cores) {
    if (core.cpus.intersects(allotted))
      ++supply[static_cast<std::size_t>(node.find_domain(core.domain) - node.domains.data())];
  }
  std::vector<std::vector<std::int64_t>> remote;
  for (const auto& [near, tasks] : tasks_near) {
    remote.emplace_back();
    for (const auto& domain : node.domains) remote.back().push_back(near.contains(domain.id) ? 0 : 1);
  }
  const auto fits = [&](int cores) {
    std::vector<int> demand;
    for (const auto& [near, tasks] : tasks_near) demand.push_back(tasks * cores);
    const auto flow = min_cost_flow(demand, supply, remote);
    for (std::size_t i = 0; i < demand.size(); ++i) {
      for (std::size_t j = 0; j < supply.size(); ++j) {
        if (remote[i][j] == 0) demand[i] -= flow[i][j];
      }
    }
    return std::all_of(demand.begin(), demand.end(), [](int missing) { return missing == 0; });
  };
  int fitting = 0;
  for (int low = 1; low <= most;) {
    const int middle = low + (most - low) / 2;
    if (fits(middle)) {
      fitting = middle;
      low = middle + 1;
    } else {
      most = middle - 1;
    }
  }
  return fitting;
}

CpuGranularity requested_share(const Supply& supply, const Request& request) {
  const int tasks = request.tasks;
  const long wanted = request.cpus_per_task;
  CpuGranularity granularity;
  granularity.cpus_per_task = request.cpus_per_task;
  if (!request.hardware_threads && wanted * tasks <= supply.cores) {
    granularity.units_per_task = request.cpus_per_task;
    return granularity;
  }
  if (wanted * tasks <= supply.threads) {
    if (!request.hardware_threads) {
      granularity.warning = plural(tasks, "task") + " with " + plural(request.cpus_per_task, "CPU") +
                            " each on " + plural(supply.cores, "allotted core") +
                            ": hardware threads are used too";
    }
    const long whole = (wanted + supply.fewest_threads - 1) / supply.fewest_threads;
    const bool cores_suffice = whole * tasks <= supply.cores;
    granularity.unit = cores_suffice ? CpuGranularity::Unit::whole_core : CpuGranularity::Unit::thread;
    granularity.units_per_task = static_cast<int>(cores_suffice ? whole : wanted);
    return granularity;
  }
  granularity = equal_shares(supply, tasks, request.hardware_threads);
  const std::string less = plural(tasks, "task") + " with " + plural(request.cpus_per_task, "CPU") +
                           " each do not fit on the " + plural(supply.threads, "allotted CPU") +
                           ": each gets an equal share";
  granularity.warning = granularity.warning.empty() ? less : less + "; " + granularity.warning;
  return granularity;
}

}  // namespace

CpuGranularity choose_cpu_granularity(const Node& node, const Request& request, const CpuSet& allotted,
                                      const std::vector<std::vector<LocalDomains>>& locality) {
  const Supply supply = count_supply(node, allotted);
  if (request.cpus_per_task > 0) return requested_share(supply, request);
  CpuGranularity granularity = equal_shares(supply, request.tasks, request.hardware_threads);
  const bool all_near =
      std::all_of(locality.begin(), locality.end(), [](const auto& task) { return !task.empty(); });
  if (!all_near || granularity.unit == CpuGranularity::Unit::thread) return granularity;
  const int local = most_local_cores(node, allotted, locality, granularity.units_per_task);
  if (local == 0 || local == granularity.units_per_task) return granularity;
  granularity.units_per_task = local;
  granularity.idle_cores = supply.cores - local * request.tasks;
  return granularity;
}

}  // namespace muster::placement
