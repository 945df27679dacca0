// SPDX-License-Identifier: Apache-2.0
#include "placement/place/gpu_locality.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace muster::placement {

namespace {

bool has_cpus(const NumaDomain& domain) { return !domain.cpus.empty(); }

LocalDomains find_local_domains(const Node& node, const Gpu& gpu) {
  LocalDomains result;
  const auto local = local_domains(node, gpu.domain, gpu.near_domains);
  std::copy_if(local.begin(), local.end(), std::back_inserter(result.near),
               [&](int id) { return has_cpus(*node.find_domain(id)); });
  if (!result.near.empty()) return result;
  result.hidden = local;
  std::set<int> near;
  for (const int id : local) {
    const auto nearest = nearest_domains(node, id, has_cpus);
    near.insert(nearest.begin(), nearest.end());
  }
  result.near.assign(near.begin(), near.end());
  return result;
}

}  // namespace

std::vector<int> nearest_domains(const Node& node, int from,
                                 const std::function<bool(const NumaDomain&)>& accept) {
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

std::vector<int> local_domains(const Node& node, int domain, const std::vector<int>& near_domains) {
  const auto reported = domain >= 0 ? std::vector<int>{domain} : near_domains;
  std::vector<int> local;
  std::copy_if(reported.begin(), reported.end(), std::back_inserter(local), [&](int id) {
    const auto* found = node.find_domain(id);
    return found != nullptr && found->has_processor();
  });
  if (!local.empty()) return local;
  const auto has_processor = [](const NumaDomain& one) { return one.has_processor(); };
  const auto processors = std::count_if(node.domains.begin(), node.domains.end(), has_processor);
  auto nearest = nearest_domains(node, reported.empty() ? -1 : reported.front(), has_processor);
  // A device that is equally near to all domains has no locality.
  if (static_cast<long>(nearest.size()) < processors || processors == 1) return nearest;
  return {};
}

std::vector<LocalDomains> gpu_local_domains(const Node& node) {
  std::vector<LocalDomains> locality;
  std::map<std::vector<int>, std::size_t> sharers, assigned;
  for (const auto& gpu : node.gpus) {
    locality.push_back(find_local_domains(node, gpu));
    ++sharers[locality.back().near];
  }
  for (auto& gpu : locality) {
    if (gpu.near.empty()) continue;
    gpu.preferred = gpu.near[assigned[gpu.near]++ * gpu.near.size() / sharers[gpu.near]];
  }
  return locality;
}

}  // namespace muster::placement
