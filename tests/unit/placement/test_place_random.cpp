// SPDX-License-Identifier: Apache-2.0
// Properties of place() on generated machines, and its optimum against exhaustive search on small ones.
#include <algorithm>
#include <map>
#include <set>

#include "catch.hpp"
#include "machines.hpp"
#include "placement/place_nics.hpp"
#include "placement/report_json.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

CpuSet allotted(const Node& node, const Request& request) {
  return request.cpus.empty() ? node.cpus() : request.cpus & node.cpus();
}

/// The domains that a task's GPUs are near to; empty if that of any is unknown.
std::set<int> homes_of(const Node& node, const TaskPlacement& task) {
  std::vector<int> with_cpus;
  for (const auto& domain : node.domains) {
    if (!domain.cpus.empty()) with_cpus.push_back(domain.id);
  }
  std::set<int> homes;
  for (const auto& gpu : task.gpus) {
    if (gpu.domain < 0 && with_cpus.size() > 1) return {};
    if (gpu.domain < 0) {
      homes.insert(with_cpus.front());
    } else if (std::find(with_cpus.begin(), with_cpus.end(), gpu.domain) != with_cpus.end()) {
      homes.insert(gpu.domain);
    } else {
      homes.insert(*std::min_element(with_cpus.begin(), with_cpus.end(), [&](int a, int b) {
        return node.domain_distance(gpu.domain, a) < node.domain_distance(gpu.domain, b);
      }));
    }
  }
  return homes;
}

void check_gpus(const Request& request, const Placement& placement) {
  std::vector<PciAddress> given;
  for (const auto& task : placement.tasks) {
    for (const auto& gpu : task.gpus) given.push_back(gpu.pci);
  }
  REQUIRE(std::is_sorted(given.begin(), given.end()));
  REQUIRE(std::adjacent_find(given.begin(), given.end()) == given.end());
  for (const auto& pci : given) REQUIRE(std::count(request.gpus.begin(), request.gpus.end(), pci) == 1);
  if (request.gpus_per_task == 0) REQUIRE(given.size() == request.gpus.size());
}

void check_cpus(const Node& node, const Request& request, const Placement& placement) {
  const CpuSet all = allotted(node, request);
  CpuSet used;
  bool disjoint = true;
  std::size_t fewest = CpuSet::limit, most = 0;
  for (const auto& task : placement.tasks) {
    REQUIRE_FALSE(task.cpus.empty());
    REQUIRE(task.cpus.is_subset_of(all));
    disjoint = disjoint && !used.intersects(task.cpus);
    used |= task.cpus;
    fewest = std::min(fewest, static_cast<std::size_t>(task.cpus.size()));
    most = std::max(most, static_cast<std::size_t>(task.cpus.size()));
  }
  REQUIRE(disjoint == (request.tasks <= all.size()));
  // Whole cores may have one or two allotted threads; otherwise shares are equal.
  if (!request.hardware_threads || request.cpus_per_task > 0)
    REQUIRE((fewest == most || request.hardware_threads));

  for (const auto& task : placement.tasks) {
    const auto homes = homes_of(node, task);
    CpuSet near;
    for (const int home : homes) near |= node.find_domain(home)->cpus;
    if (homes.empty() || task.cpus.is_subset_of(near)) continue;
    for (const auto& core : node.cores) {
      const bool idle = core.cpus.intersects(all) && !core.cpus.intersects(used);
      REQUIRE_FALSE((idle && homes.contains(core.domain)));  // a remote core while a local one is idle
    }
  }
}

void check_memory_and_nics(const Node& node, const Placement& placement) {
  for (const auto& task : placement.tasks) {
    REQUIRE_FALSE(task.memory.empty());
    for (const int id : task.memory) {
      REQUIRE_FALSE(node.find_domain(id)->gpu_memory);
      REQUIRE_FALSE(node.find_domain(id)->cpus.empty());
    }
    const auto homes = homes_of(node, task);
    if (!homes.empty()) REQUIRE(std::set<int>(task.memory.begin(), task.memory.end()) == homes);
    for (const auto& nic : task.nics) {
      const auto at =
          std::find_if(node.nics.begin(), node.nics.end(), [&](const Nic& n) { return n.name == nic.name; });
      REQUIRE(at != node.nics.end());
      REQUIRE(at->usable);
    }
  }
}

std::string as_text(const Node& node, const Placement& placement) { return report_json(node, placement, {}); }

/// (cores off their home, sum of their distances) of the best assignment of need units per task to domains.
using Cost = std::pair<int, int>;
Cost exhaustive(const Node& node, const std::vector<int>& homes, std::size_t unit, int need,
                std::map<int, int>& left) {
  if (unit == homes.size() * static_cast<std::size_t>(need)) return {0, 0};
  const int home = homes[unit / static_cast<std::size_t>(need)];
  Cost best{1 << 20, 0};
  for (auto& [domain, free] : left) {
    if (free == 0) continue;
    --free;
    Cost cost = exhaustive(node, homes, unit + 1, need, left);
    ++free;
    if (domain != home) cost = {cost.first + 1, cost.second + node.domain_distance(home, domain)};
    best = std::min(best, cost);
  }
  return best;
}

Cost cost_of(const Node& node, const Placement& placement, const std::vector<int>& homes) {
  Cost cost{0, 0};
  for (const auto& task : placement.tasks) {
    const int home = homes[static_cast<std::size_t>(task.local_rank)];
    for (const auto& core : node.cores) {
      if (!core.cpus.intersects(task.cpus) || core.domain == home) continue;
      cost = {cost.first + 1, cost.second + node.domain_distance(home, core.domain)};
    }
  }
  return cost;
}

/// The smallest sum of squared loads with every anchor on one of its nearest NICs.
long most_even(const std::vector<std::vector<std::size_t>>& nearest, std::size_t anchor,
               std::vector<long>& load) {
  if (anchor == nearest.size()) {
    long sum = 0;
    for (const long l : load) sum += l * l;
    return sum;
  }
  if (nearest[anchor].empty()) return most_even(nearest, anchor + 1, load);
  long best = std::numeric_limits<long>::max();
  for (const auto nic : nearest[anchor]) {
    ++load[nic];
    best = std::min(best, most_even(nearest, anchor + 1, load));
    --load[nic];
  }
  return best;
}

}  // namespace

TEST_CASE("Generated machines: GPUs, CPUs, memory and NICs have the promised properties") {
  for (unsigned seed = 0; seed < 1500; ++seed) {
    std::mt19937 random(seed);
    const Node node = random_node(random);
    const Request request = random_request(node, random);
    if (!request.cpus.empty() && allotted(node, request).empty()) continue;
    INFO("seed " << seed);
    const Placement placement = place(node, request);
    REQUIRE(placement.tasks.size() == static_cast<std::size_t>(request.tasks));
    check_gpus(request, placement);
    check_cpus(node, request, placement);
    check_memory_and_nics(node, placement);
  }
}

TEST_CASE("Generated machines: the answer does not depend on the order of enumeration") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Node node = random_node(random);
    Request request = random_request(node, random);
    INFO("seed " << seed);
    const std::string first = as_text(node, place(node, request));
    std::shuffle(node.cores.begin(), node.cores.end(), random);
    std::shuffle(node.gpus.begin(), node.gpus.end(), random);
    std::shuffle(node.nics.begin(), node.nics.end(), random);
    std::shuffle(request.gpus.begin(), request.gpus.end(), random);
    finish(node);
    REQUIRE(as_text(node, place(node, request)) == first);
  }
}

TEST_CASE("Small machines: CPUs are as near as exhaustive search can make them") {
  int compared = 0;
  for (unsigned seed = 0; compared < 400; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    Node node = make_node({pick(1, 2), pick(1, 2), pick(1, 3), 1});
    const int domains = static_cast<int>(node.domains.size());
    for (auto& domain : node.domains) {
      for (auto& distance : domain.distances) distance = distance == 10 ? 10 : pick(11, 40);
    }
    Request request;
    request.tasks = pick(1, 4);
    request.cpus_per_task = pick(1, 3);
    if (request.tasks * request.cpus_per_task > std::min(6, static_cast<int>(node.cores.size()))) continue;
    std::vector<int> homes;
    for (int task = 0; task < request.tasks; ++task) {
      homes.push_back(pick(0, domains - 1));
      add_gpu(node, homes.back(), 16 + task);
    }
    request.gpus = addresses(node);
    for (const auto& core : node.cores) {
      if (pick(0, 4) > 0) request.cpus |= core.cpus;
    }
    if (request.cpus.size() < request.tasks * request.cpus_per_task) request.cpus = node.cpus();
    std::map<int, int> left;
    for (const auto& domain : node.domains) left[domain.id] = (domain.cpus & request.cpus).size();
    INFO("seed " << seed);
    CHECK(cost_of(node, place(node, request), homes) ==
          exhaustive(node, homes, 0, request.cpus_per_task, left));
    ++compared;
  }
}

TEST_CASE("Small machines: NICs are as near and as evenly dealt as exhaustive search can make them") {
  int uneven_choices = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const Node node = random_node(random);
    std::vector<Anchor> anchors;
    for (const auto& gpu : node.gpus) anchors.push_back({gpu.path, gpu.domain});
    if (anchors.size() > 6) anchors.resize(6);
    // Nearest sets worked out anew, straight from the definition.
    std::vector<std::vector<std::size_t>> nearest(anchors.size());
    for (std::size_t a = 0; a < anchors.size(); ++a) {
      std::map<std::pair<int, int>, std::vector<std::size_t>> by_distance;
      for (std::size_t n = 0; n < node.nics.size(); ++n) {
        const Nic& nic = node.nics[n];
        if (!nic.usable) continue;
        const int only = node.domains.size() == 1 ? 0 : -1;
        const int from = anchors[a].domain < 0 ? only : anchors[a].domain;
        const int to = nic.domain < 0 ? only : nic.domain;
        const Distance distance = device_distance(anchors[a].path, from, nic.path, to);
        by_distance[{static_cast<int>(distance),
                     distance == Distance::sys ? node.domain_distance(from, to) : 0}]
            .push_back(n);
      }
      if (!by_distance.empty()) nearest[a] = by_distance.begin()->second;
    }
    const auto choices = choose_near_nics(node, anchors);
    std::vector<long> load(node.nics.size());
    INFO("seed " << seed);
    for (std::size_t a = 0; a < anchors.size(); ++a) {
      REQUIRE(choices[a].nics.empty() == nearest[a].empty());
      for (const auto nic : choices[a].nics) {
        REQUIRE(std::count(nearest[a].begin(), nearest[a].end(), nic) == 1);
        ++load[nic];
      }
      if (nearest[a].size() > 1) ++uneven_choices;
    }
    long sum = 0, extra = 0, anchored = 0;
    for (const long l : load) sum += l * l;
    // NICs given on top of one per anchor are otherwise idle: each adds exactly one to the sum.
    for (const auto& choice : choices) {
      extra += std::max<long>(0, static_cast<long>(choice.nics.size()) - 1);
      anchored += choice.nics.empty() ? 0 : 1;
    }
    std::vector<long> none(node.nics.size());
    REQUIRE(sum - extra == most_even(nearest, 0, none));
    REQUIRE(anchored <= static_cast<long>(anchors.size()));
  }
  CHECK(uneven_choices > 100);  // the generator does make ties
}
