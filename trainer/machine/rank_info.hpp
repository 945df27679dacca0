// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/muster.hpp"

namespace muster {

/// Where a rank runs and on which hardware, for the report. Unknown values are empty or 0.
struct RankInfo {
  int rank = 0;
  std::string host;
  std::string gpus;     ///< PCI addresses (MUSTER_GPUS)
  std::string cpus;     ///< CPU list of the affinity mask
  std::string memory;   ///< preferred NUMA domains (MUSTER_MEMORY)
  std::string nics;     ///< RDMA devices with port (MUSTER_NICS)
  bool placed = false;  ///< by Muster's plugin
  int threads = 0;
  double peak_flops = 0;  ///< measured

  std::string processor, kernel;  ///< of the host
  int host_cpus = 0;              ///< of the host
  std::int64_t host_memory = 0;   ///< bytes
};

/// Reads this rank's information from its hello, the environment that the plugin set (docs/environment.md)
/// and the host.
RankInfo read_rank_info(const Hello& hello);

/// Returns the information of all ranks, indexed by rank, on every rank. Collective over `world`.
std::vector<RankInfo> gather_rank_info(Communicator& world, const RankInfo& mine);

/// Gives every rank the information that rank 0 has. Collective over `world`.
std::vector<RankInfo> share_rank_info(Communicator& world, const std::vector<RankInfo>& infos);

}  // namespace muster
