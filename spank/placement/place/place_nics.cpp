// SPDX-License-Identifier: Apache-2.0
#include "placement/place/place_nics.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "placement/place/gpu_locality.hpp"

namespace muster::placement {

namespace {

constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

/// Orders by nearness; the NUMA distance is compared only between domains (Distance::sys).
struct Nearness {
  Distance distance = Distance::unknown;
  int numa = 0;
  friend auto operator<=>(const Nearness&, const Nearness&) = default;
};

Nearness nearness(const Node& node, const Anchor& anchor, const Nic& nic) {
  const auto near = local_domains(node, nic.domain, nic.near_domains);
  Nearness result{device_distance(anchor.path, anchor.near, nic.path, near), 0};
  if (result.distance != Distance::sys) return result;
  result.numa = std::numeric_limits<int>::max();
  for (const int from : anchor.near) {
    for (const int to : near) result.numa = std::min(result.numa, node.domain_distance(from, to));
  }
  return result;
}

/// Assigns NICs to anchors so that no NIC could pass an anchor, directly or along a chain, to a NIC with at
/// least two anchors fewer (an optimal semi-matching in a bipartite graph: Harvey, Ladner, Lovász and Tamir,
/// Journal of Algorithms 59, 2006).
class EvenAssignment {
 public:
  EvenAssignment(const std::vector<std::vector<std::size_t>>& nearest, std::size_t nics)
      : nearest_(nearest), load_(nics), chosen_(nearest.size(), none) {
    for (std::size_t anchor = 0; anchor < nearest.size(); ++anchor) {
      if (nearest[anchor].empty()) continue;
      const auto nic = *std::min_element(nearest[anchor].begin(), nearest[anchor].end(),
                                         [&](std::size_t a, std::size_t b) { return load_[a] < load_[b]; });
      chosen_[anchor] = nic;
      ++load_[nic];
    }
    while (move_one_anchor()) {
    }
  }

  const std::vector<std::size_t>& chosen() const { return chosen_; }
  int load(std::size_t nic) const { return load_[nic]; }

 private:
  bool move_one_anchor() {
    for (std::size_t start = 0; start < load_.size(); ++start) {
      if (load_[start] >= 2 && reduce_load(start)) return true;
    }
    return false;
  }

  /// Breadth-first search from a NIC over its anchors to other NICs that are equally near to them.
  bool reduce_load(std::size_t start) {
    std::vector<std::size_t> via(load_.size(), none);  // the anchor that would move to this NIC
    std::vector<std::size_t> queue{start};
    for (std::size_t head = 0; head < queue.size(); ++head) {
      for (std::size_t anchor = 0; anchor < chosen_.size(); ++anchor) {
        if (chosen_[anchor] != queue[head]) continue;
        for (const auto nic : nearest_[anchor]) {
          if (nic == start || via[nic] != none) continue;
          via[nic] = anchor;
          if (load_[nic] + 2 <= load_[start]) {
            move_along(via, start, nic);
            return true;
          }
          queue.push_back(nic);
        }
      }
    }
    return false;
  }

  void move_along(const std::vector<std::size_t>& via, std::size_t start, std::size_t end) {
    --load_[start];
    ++load_[end];
    for (std::size_t nic = end; nic != start;) {
      const std::size_t anchor = via[nic];
      const std::size_t from = chosen_[anchor];
      chosen_[anchor] = nic;
      nic = from;
    }
  }

  const std::vector<std::vector<std::size_t>>& nearest_;
  std::vector<int> load_;
  std::vector<std::size_t> chosen_;
};

}  // namespace

std::vector<NicChoice> choose_near_nics(const Node& node, const std::vector<Anchor>& anchors) {
  std::vector<NicChoice> choices(anchors.size());
  std::vector<std::vector<std::size_t>> nearest(anchors.size());
  for (std::size_t anchor = 0; anchor < anchors.size(); ++anchor) {
    std::optional<Nearness> best;
    for (std::size_t nic = 0; nic < node.nics.size(); ++nic) {
      if (!node.nics[nic].usable) continue;
      const Nearness here = nearness(node, anchors[anchor], node.nics[nic]);
      if (!best || here < *best) {
        best = here;
        nearest[anchor].clear();
      }
      if (here == *best) nearest[anchor].push_back(nic);
    }
    if (best) choices[anchor].distance = best->distance;
  }
  const EvenAssignment assignment(nearest, node.nics.size());
  for (std::size_t anchor = 0; anchor < anchors.size(); ++anchor) {
    if (assignment.chosen()[anchor] != none) choices[anchor].nics.push_back(assignment.chosen()[anchor]);
  }
  for (std::size_t nic = 0; nic < node.nics.size(); ++nic) {
    if (!node.nics[nic].usable || assignment.load(nic) > 0) continue;
    NicChoice* poorest = nullptr;
    for (std::size_t anchor = 0; anchor < anchors.size(); ++anchor) {
      const bool near =
          choices[anchor].distance < Distance::sys &&
          std::find(nearest[anchor].begin(), nearest[anchor].end(), nic) != nearest[anchor].end();
      if (near && (poorest == nullptr || choices[anchor].nics.size() < poorest->nics.size()))
        poorest = &choices[anchor];
    }
    if (poorest != nullptr) poorest->nics.push_back(nic);
  }
  for (auto& choice : choices) std::sort(choice.nics.begin(), choice.nics.end());
  return choices;
}

}  // namespace muster::placement
