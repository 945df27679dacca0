// SPDX-License-Identifier: Apache-2.0
#include "placement/place/gpu_locality.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace muster::placement {

namespace {

bool has_cpus(const NumaDomain& domain) { return !domain.cpus.empty(); }
bool is_processors(const NumaDomain& domain) { return has_cpus(domain) || domain.cpus_hidden; }

/// The accepted domains nearest to another, ascending: several where they are equally near.
template <typename Accept>
std::vector<int> nearest_domains(const Node& node, int from, Accept accept) {
  std::vector<int> nearest;
  for (const auto& domain : node.domains) {
    if (!accept(domain)) continue;
    if (!nearest.empty()) {
      const int distance = node.domain_distance(from, domain.id);
      const int best = node.domain_distance(from, nearest.front());
      if (distance > best) continue;
      if (distance < best) nearest.clear();
    }
    nearest.push_back(domain.id);
  }
  return nearest;
}

Home home_of(const Node& node, const Gpu& gpu) {
  Home home;
  const auto local = local_domains(node, gpu.domain, gpu.near_domains);
  std::copy_if(local.begin(), local.end(), std::back_inserter(home.near),
               [&](int id) { return has_cpus(*node.find_domain(id)); });
  if (!home.near.empty()) return home;
  home.hidden = local;
  std::set<int> near;
  for (const int id : local) {
    const auto nearest = nearest_domains(node, id, has_cpus);
    near.insert(nearest.begin(), nearest.end());
  }
  home.near.assign(near.begin(), near.end());
  return home;
}

}  // namespace

std::vector<int> local_domains(const Node& node, int domain, const std::vector<int>& near_domains) {
  const auto said = domain >= 0 ? std::vector<int>{domain} : near_domains;
  std::vector<int> local;
  std::copy_if(said.begin(), said.end(), std::back_inserter(local), [&](int id) {
    const auto* found = node.find_domain(id);
    return found != nullptr && is_processors(*found);
  });
  if (!local.empty()) return local;
  const auto processors = std::count_if(node.domains.begin(), node.domains.end(),
                                        [](const auto& one) { return is_processors(one); });
  const auto nearest = nearest_domains(node, said.empty() ? -1 : said.front(), is_processors);
  // As near to each as to every other says nothing.
  if (static_cast<long>(nearest.size()) < processors || processors == 1) return nearest;
  return {};
}

std::vector<Home> homes_of_gpus(const Node& node) {
  std::vector<Home> homes;
  std::map<std::vector<int>, std::size_t> sharers, dealt;
  for (const auto& gpu : node.gpus) {
    homes.push_back(home_of(node, gpu));
    ++sharers[homes.back().near];
  }
  for (auto& home : homes) {
    if (home.near.empty()) continue;
    home.domain = home.near[dealt[home.near]++ * home.near.size() / sharers[home.near]];
  }
  return homes;
}

}  // namespace muster::placement
