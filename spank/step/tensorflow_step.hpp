// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "slurm/rank_layout.hpp"

namespace muster::spank {

/// The "cluster" of a step's TF_CONFIG, or why it has none.
struct TensorflowStep {
  std::string cluster;  ///< as placement::tensorflow_cluster() writes it
  std::string missing;  ///< the reason in one line; empty if there is a cluster
};

/// ports: by local rank, the same on every node. Uses no more memory than the cluster that it returns. Pure.
TensorflowStep tensorflow_step(const RankLayout& layout, int world_size, const std::vector<int>& ports);

}  // namespace muster::spank
