// SPDX-License-Identifier: Apache-2.0
#include "placement/place_homes.hpp"

#include <algorithm>
#include <map>

namespace muster::placement {

namespace {

int nearest_with_cpus(const Node& node, int from) {
  const NumaDomain* best = nullptr;
  for (const auto& domain : node.domains) {
    if (domain.cpus.empty()) continue;
    if (best == nullptr || node.domain_distance(from, domain.id) < node.domain_distance(from, best->id))
      best = &domain;
  }
  return best == nullptr ? -1 : best->id;
}

bool has_cpus(const Node& node, int id) {
  const auto* domain = node.find_domain(id);
  return domain != nullptr && !domain->cpus.empty();
}

}  // namespace

std::vector<int> local_domains(const Node& node, int domain, const std::vector<int>& near_domains) {
  std::vector<int> near;
  if (node.find_domain(domain) != nullptr) {
    near.push_back(has_cpus(node, domain) ? domain : nearest_with_cpus(node, domain));
  } else {
    std::copy_if(near_domains.begin(), near_domains.end(), std::back_inserter(near),
                 [&](int id) { return has_cpus(node, id); });
  }
  const auto with_cpus = std::count_if(node.domains.begin(), node.domains.end(),
                                       [](const NumaDomain& other) { return !other.cpus.empty(); });
  if (near.empty() && with_cpus == 1) near.push_back(nearest_with_cpus(node, -1));
  if (near == std::vector<int>{-1}) near.clear();
  return near;
}

std::vector<Home> homes_of_gpus(const Node& node) {
  std::vector<Home> homes;
  std::map<std::vector<int>, std::size_t> sharers, dealt;
  for (const auto& gpu : node.gpus) {
    homes.push_back({-1, local_domains(node, gpu.domain, gpu.near_domains)});
    ++sharers[homes.back().near];
  }
  for (auto& home : homes) {
    if (home.near.empty()) continue;
    home.domain = home.near[dealt[home.near]++ * home.near.size() / sharers[home.near]];
  }
  return homes;
}

}  // namespace muster::placement
