// SPDX-License-Identifier: Apache-2.0
#include "step/tensorflow_step.hpp"

#include <algorithm>

#include "placement/environment/environment.hpp"

namespace muster::spank {

namespace {

constexpr const char* does_not_fit =
    "every rank's host and port do not fit into 128 KiB, the most that Linux takes in one variable";

// Each host takes at least two quotes, a colon, a digit and a comma more than its name.
bool may_fit(const RankLayout& layout) {
  constexpr std::size_t longest = 128 * 1024, around_host = 5;
  std::size_t bytes = 0;
  for (std::size_t node = 0; node < layout.ranks.size() && bytes <= longest; ++node)
    bytes += layout.ranks[node].size() * (layout.hosts[node].size() + around_host);
  return bytes <= longest;
}

}  // namespace

TensorflowStep tensorflow_step(const RankLayout& layout, int world_size, const std::vector<int>& ports) {
  if (layout.ranks.empty()) return {"", layout.unknown};
  for (std::size_t node = 0; node < layout.ranks.size(); ++node)
    if (layout.ranks[node].size() > ports.size())
      return {"", layout.hosts[node] + " has more tasks than the " + std::to_string(ports.size()) +
                      " ports for them"};
  if (!may_fit(layout)) return {"", does_not_fit};
  // A layout has as many ranks as the step.
  std::vector<std::string> hosts(static_cast<std::size_t>(world_size));
  std::vector<int> rank_ports(hosts.size());
  for (std::size_t node = 0; node < layout.ranks.size(); ++node)
    for (std::size_t local = 0; local < layout.ranks[node].size(); ++local) {
      const auto rank = static_cast<std::size_t>(layout.ranks[node][local]);
      hosts.at(rank) = layout.hosts[node];
      rank_ports.at(rank) = ports[local];
    }
  TensorflowStep step{placement::tensorflow_cluster(hosts, rank_ports), ""};
  if (step.cluster.empty()) step.missing = does_not_fit;
  return step;
}

}  // namespace muster::spank
