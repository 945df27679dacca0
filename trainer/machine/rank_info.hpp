// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/muster.hpp"

namespace muster {

/// Where a rank runs and on what, for the report. What is not known is empty or 0.
struct RankFacts {
  int rank = 0;
  std::string host;
  std::string gpus;     ///< PCI addresses (MUSTER_GPUS)
  std::string cpus;     ///< CPU list that it may run on
  std::string memory;   ///< preferred NUMA domains (MUSTER_MEMORY)
  std::string nics;     ///< RDMA devices with port (MUSTER_NICS)
  bool placed = false;  ///< by Muster's plugin
  int threads = 0;
  double peak_flops = 0;  ///< measured

  std::string processor, kernel;  ///< of the host
  int host_cpus = 0;              ///< of the host
  std::int64_t host_memory = 0;   ///< bytes
};

/// This rank's, from its hello, the environment that the plugin gave it (docs/environment.md) and the host.
RankFacts facts_of_this_rank(const Hello& hello);

/// Everybody's, by rank, on every rank. Collective over `world`.
std::vector<RankFacts> gather_facts(Communicator& world, const RankFacts& mine);

}  // namespace muster
