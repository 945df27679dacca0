// SPDX-License-Identifier: Apache-2.0
// The components of a heterogeneous step. Lines: nodes, tasks per node, distribution, plane size, number of
// ranks, own group, then one line of nodes for each group.
#include <cstdlib>
#include <numeric>

#include "lines.hpp"
#include "slurm/rank_layout.hpp"
#include "slurm/srun_command.hpp"

using namespace muster;
using namespace muster::spank;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto const line = fuzz::split_lines(data, size, 6);
  HeterogeneousStep step;
  step.whole = {line[0], line[1], line[2], line[3], parse_count(line[4])};
  step.own_group = static_cast<std::size_t>(parse_count(line[5]));
  step.groups.assign(line.begin() + 6, line.end());
  Components const found = find_components(step);
  int ranks = 0;
  for (const auto& shape : found.shapes) ranks += shape.world_size;
  if (!found.shapes.empty() &&
      (ranks != step.whole.world_size || found.first_rank < 0 || found.first_rank > ranks))
    std::abort();
  std::vector<int> own(ranks > 0 && ranks < 1000 ? static_cast<std::size_t>(ranks) : 0);
  std::iota(own.begin(), own.end(), 0);
  RankLayout const layout = lay_out_components(found.shapes, own);
  if (layout.ranks.empty() == layout.unknown.empty()) std::abort();
  return 0;
}
