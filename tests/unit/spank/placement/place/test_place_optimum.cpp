// SPDX-License-Identifier: Apache-2.0
// Compares place() on small machines with exhaustive search.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "catch.hpp"
#include "placement/place/gpu_locality.hpp"
#include "placement/place/place_nics.hpp"
#include "spank/placement/machines.hpp"
#include "spank/placement/properties.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

/// Cores off the domains near to the task's GPUs, the sum of their distances, and cores on near domains that
/// are not the preferred one.
using Cost = std::tuple<int, int, int>;

/// The locality that one core of a task should have.
struct Unit {
  int preferred = 0;
  std::set<int> near;
};

Cost compute_cost(const Node& node, const Unit& unit, int domain) {
  if (domain == unit.preferred) return {0, 0, 0};
  if (unit.near.contains(domain)) return {0, 0, 1};
  int distance = std::numeric_limits<int>::max();
  for (const int near : unit.near) distance = std::min(distance, node.domain_distance(near, domain));
  return {1, distance, 0};
}

Cost sum(const Cost& a, const Cost& b) {
  return {std::get<0>(a) + std::get<0>(b), std::get<1>(a) + std::get<1>(b), std::get<2>(a) + std::get<2>(b)};
}

/// The smallest cost of taking the units from number `next` on from the domains' remaining cores.
Cost exhaustive(const Node& node, const std::vector<Unit>& units, std::size_t next,
                std::map<int, int>& left) {
  if (next == units.size()) return {0, 0, 0};
  Cost best{1 << 20, 0, 0};
  for (auto& [domain, free] : left) {
    if (free == 0) continue;
    --free;
    best =
        std::min(best, sum(compute_cost(node, units[next], domain), exhaustive(node, units, next + 1, left)));
    ++free;
  }
  return best;
}

/// The units of one task, in proportion to its GPUs.
std::vector<Unit> make_units(const Node& node, const TaskPlacement& task, int cpus) {
  const auto locality = gpu_local_domains(node);
  const auto near = expected_near(node, task);
  const int gpus = static_cast<int>(task.gpus.size());
  std::vector<Unit> units;
  for (int i = 0; i < gpus; ++i) {
    const auto index = static_cast<std::size_t>(node.find_gpu(task.gpus[static_cast<std::size_t>(i)].pci) -
                                                node.gpus.data());
    for (int n = cpus * i / gpus; n < cpus * (i + 1) / gpus; ++n)
      units.push_back({locality[index].preferred, near});
  }
  return units;
}

/// The cost of the task's CPUs, for the best matching of its units to them.
Cost compute_cost(const Node& node, const TaskPlacement& task, const std::vector<Unit>& units) {
  std::map<int, int> cores;
  for (const auto& core : node.cores) {
    if (core.cpus.intersects(task.cpus)) ++cores[core.domain];
  }
  return exhaustive(node, units, 0, cores);
}

/// A machine and a request with at most seven cores in all tasks. Tasks may have several GPUs, GPUs may have
/// several tasks or near domains, and any core may be missing.
std::optional<std::pair<Node, Request>> small_problem(std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Node node = make_node({pick(1, 2), pick(1, 2), pick(1, 3), 1});
  const int domains = static_cast<int>(node.domains.size());
  for (auto& domain : node.domains) {
    for (auto& distance : domain.distances) distance = distance == 10 ? 10 : pick(11, 40);
  }
  Request request;
  const int gpus = pick(1, 4);
  for (int i = 0; i < gpus; ++i) {
    add_gpu(node, pick(0, domains - 1), 16 + i);
    if (domains > 2 && pick(0, 3) == 0) {
      const auto at = node.gpus.end() - 1;
      at->near_domains = {at->domain, (at->domain + 1) % domains};
      at->domain = -1;
    }
  }
  finish(node);
  request.gpus = addresses(node);
  request.tasks_per_gpu = pick(1, 2);
  request.tasks = pick(1, gpus * request.tasks_per_gpu);
  request.cpus_per_task = pick(1, 4);
  for (const auto& core : node.cores) {
    if (pick(0, 4) > 0) request.cpus |= core.cpus;
  }
  const int wanted = request.tasks * request.cpus_per_task;
  if (wanted > 7 || request.cpus.size() < wanted) return std::nullopt;
  return std::pair(node, request);
}

/// The only domain, which devices of unknown locality are near to; empty on a node with several.
std::vector<int> only_domain(const Node& node) {
  return node.domains.size() == 1 ? std::vector<int>{0} : std::vector<int>();
}

/// The first six GPUs: exhaustive search cannot handle more.
std::vector<Anchor> make_anchors(const Node& node) {
  std::vector<Anchor> anchors;
  for (const auto& gpu : node.gpus) {
    const auto& otherwise = gpu.near_domains.empty() ? only_domain(node) : gpu.near_domains;
    anchors.push_back({gpu.path, gpu.domain >= 0 ? std::vector<int>{gpu.domain} : otherwise});
  }
  if (anchors.size() > 6) anchors.resize(6);
  return anchors;
}

/// The usable NICs nearest to an anchor, computed directly from the definition.
std::vector<std::size_t> nearest_nics(const Node& node, const Anchor& anchor) {
  std::map<std::pair<int, int>, std::vector<std::size_t>> by_distance;
  for (std::size_t n = 0; n < node.nics.size(); ++n) {
    const Nic& nic = node.nics[n];
    if (!nic.usable) continue;
    const std::vector<int> to = nic.domain < 0 ? only_domain(node) : std::vector<int>{nic.domain};
    const Distance distance = device_distance(anchor.path, anchor.near, nic.path, to);
    int numa = 1 << 30;
    for (const int from : anchor.near)
      if (!to.empty()) numa = std::min(numa, node.domain_distance(from, to.front()));
    by_distance[{static_cast<int>(distance), distance == Distance::sys ? numa : 0}].push_back(n);
  }
  return by_distance.empty() ? std::vector<std::size_t>() : by_distance.begin()->second;
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

TEST_CASE("On small machines, CPUs are as near as the best answer of exhaustive search") {
  int compared = 0, several_gpus = 0, shared = 0, remote = 0;
  for (unsigned seed = 0; compared < 600; ++seed) {
    std::mt19937 random(seed);
    const auto problem = small_problem(random);
    if (!problem) continue;
    const auto& [node, request] = *problem;
    std::map<int, int> left;
    for (const auto& domain : node.domains) left[domain.id] = (domain.cpus & request.cpus).size();
    const auto placement = place(node, request);
    std::vector<Unit> all;
    Cost cost{0, 0, 0};
    for (const auto& task : placement.tasks) {
      const auto units = make_units(node, task, request.cpus_per_task);
      all.insert(all.end(), units.begin(), units.end());
      cost = sum(cost, compute_cost(node, task, units));
    }
    INFO("seed " << seed);
    CHECK(cost == exhaustive(node, all, 0, left));
    ++compared;
    several_gpus += placement.tasks[0].gpus.size() > 1;
    shared += request.tasks > static_cast<int>(node.gpus.size());
    remote += std::get<0>(cost) > 0;
  }
  CHECK(std::min({several_gpus, shared, remote}) > 50);  // the generator covers all cases
}

TEST_CASE(
    "On small machines, NICs are as near and as evenly spread as the best answer of exhaustive search") {
  int uneven_choices = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const Node node = random_node(random);
    const auto anchors = make_anchors(node);
    std::vector<std::vector<std::size_t>> nearest;
    for (const auto& anchor : anchors) nearest.push_back(nearest_nics(node, anchor));
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
    // A second NIC of an anchor is idle otherwise, so each adds exactly one to the sum.
    for (const auto& choice : choices) {
      extra += std::max<long>(0, static_cast<long>(choice.nics.size()) - 1);
      anchored += choice.nics.empty() ? 0 : 1;
    }
    std::vector<long> none(node.nics.size());
    REQUIRE(sum - extra == most_even(nearest, 0, none));
    REQUIRE(anchored <= static_cast<long>(anchors.size()));
  }
  CHECK(uneven_choices > 100);  // the generator creates ties
}
