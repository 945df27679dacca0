// SPDX-License-Identifier: Apache-2.0
// The layout of a step's ranks. Lines: nodes, tasks per node, distribution, plane size, srun's explicit
// layout, number of ranks, own ranks.
#include <cstdlib>

#include "cpu_set/cpu_set.hpp"
#include "lines.hpp"
#include "slurm/rank_layout.hpp"
#include "slurm/srun_command.hpp"
#include "step/tensorflow_step.hpp"

using namespace muster;
using namespace muster::spank;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto const line = fuzz::split_lines(data, size, 7);
  StepShape const shape{line[0], line[1], line[2], line[3], parse_count(line[5]), line[4]};
  auto const own = CpuSet::parse_list(line[6]).value_or(CpuSet()).to_vector();
  RankLayout const layout = lay_out(shape, own);
  if (layout.ranks.empty()) {
    if (layout.unknown.empty()) std::abort();
  } else {
    // Each rank occurs once.
    std::vector<bool> seen(static_cast<std::size_t>(shape.world_size));
    for (const auto& ranks : layout.ranks)
      for (int const rank : ranks) {
        if (rank < 0 || rank >= shape.world_size || seen[static_cast<std::size_t>(rank)]) std::abort();
        seen[static_cast<std::size_t>(rank)] = true;
      }
    for (bool const was_seen : seen)
      if (!was_seen) std::abort();
    if (layout.ranks.size() != layout.hosts.size() || !layout.node_of(0)) std::abort();
  }
  auto const tensorflow = tensorflow_step(layout, shape.world_size, {10004, 10005, 10006, 10007});
  if (tensorflow.cluster.empty() == tensorflow.missing.empty()) std::abort();
  return 0;
}
