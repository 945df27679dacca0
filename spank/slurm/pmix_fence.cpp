// SPDX-License-Identifier: Apache-2.0
#include "slurm/pmix_fence.hpp"

#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

namespace {

// The components of a heterogeneous step may have one node each.
bool has_several_nodes(spank_handle* spank) {
  std::uint32_t nodes = 0;
  return std::getenv("SLURM_HET_SIZE") != nullptr ||
         (spank_get_item(spank, S_JOB_NNODES, &nodes) == ESPANK_SUCCESS && nodes > 1);
}

// Without direct connections mpi/pmix has no ring, and prints an error for each step that requests one.
bool has_ring() {
  const char* direct = std::getenv("SLURM_PMIX_DIRECT_CONN");
  constexpr std::array no = {"0", "false", "no"};
  return direct == nullptr ||
         std::none_of(no.begin(), no.end(), [&](const char* word) { return strcasecmp(direct, word) == 0; });
}

}  // namespace

void request_ring_fence(spank_handle* spank) {
  if (std::getenv(fence_variable) != nullptr || !has_several_nodes(spank) || !has_ring()) return;
  setenv(fence_variable, "ring", 1);
  setenv(fence_marker, "ring", 1);
}

}  // namespace muster::spank
