// SPDX-License-Identifier: Apache-2.0
#include "slurm/heterogeneous.hpp"

#include <map>

#include "host_list/expand_host_list.hpp"

namespace muster::spank {

namespace {

void append(std::string& list, const std::string& item) {
  if (!list.empty()) list += ',';
  list += item;
}

}  // namespace

Components find_components(const HeterogeneousStep& step) {
  const auto hosts = expand_host_list(step.whole.node_list);
  const auto counts = expand_counts(step.whole.tasks_per_node);
  if (!hosts || !counts || hosts->size() != counts->size() || step.own_group >= step.groups.size() ||
      step.groups.size() > most_groups)
    return {};
  std::map<std::string, int> tasks_on;
  for (std::size_t i = 0; i < hosts->size(); ++i) tasks_on[(*hosts)[i]] = (*counts)[i];

  Components components;
  int ranks = 0;
  for (std::size_t group = 0; group < step.groups.size(); ++group) {
    if (group == step.own_group) components.first_rank = ranks;
    StepShape shape{"", "", step.whole.distribution, step.whole.plane_size, 0};
    for (const auto& host : expand_host_list(step.groups[group]).value_or(std::vector<std::string>{})) {
      const auto at = tasks_on.find(host);
      if (at == tasks_on.end()) continue;
      // A node is in one component only, so more ranks than the step has are an error.
      if (ranks + shape.world_size + at->second > step.whole.world_size) return {};
      append(shape.node_list, host);
      append(shape.tasks_per_node, std::to_string(at->second));
      shape.world_size += at->second;
    }
    ranks += shape.world_size;
    if (shape.world_size > 0) components.shapes.push_back(shape);
  }
  return ranks == step.whole.world_size ? components : Components{};
}

}  // namespace muster::spank
