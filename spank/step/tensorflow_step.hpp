// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "slurm/rank_layout.hpp"

namespace muster::spank {

/// The "cluster" of a step's TF_CONFIG, or why it has none.
struct TensorflowStep {
  std::string cluster;  ///< as placement::tensorflow_cluster() writes it
  std::string missing;  ///< one line; empty where there is a cluster
};

/// ports: by local rank, on every node. Takes no more memory than the cluster that it gives. Pure.
TensorflowStep tensorflow_step(const RankLayout& layout, int world_size, const std::vector<int>& ports);

}  // namespace muster::spank
