// SPDX-License-Identifier: Apache-2.0
#include "slurm/srun_environment.hpp"

#include <strings.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hash/fnv1a.hpp"
#include "slurm/rank_layout.hpp"

extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>
}

// In srun these come from Slurm's own library. Weak: a plugin that fails to load because one is missing would
// stop every job.
#pragma weak slurm_job_step_layout_get
#pragma weak slurm_job_step_layout_free

namespace muster::spank {

namespace {

using Layout = std::unique_ptr<slurm_step_layout_t, decltype(&slurm_job_step_layout_free)>;

/// The node of each rank; empty if the layout is inconsistent.
std::vector<std::uint32_t> nodes_of_ranks(const slurm_step_layout_t& layout) {
  constexpr std::uint32_t nowhere = 0xffffffff;
  std::vector<std::uint32_t> nodes(layout.task_cnt, nowhere);
  for (std::uint32_t node = 0; node < layout.node_cnt; ++node)
    for (std::uint32_t task = 0; task < layout.tasks[node]; ++task) {
      const std::uint32_t rank = layout.tids[node][task];
      if (rank >= nodes.size()) return {};
      nodes[rank] = node;
    }
  return nodes;
}

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

void publish_arbitrary_layout(spank_handle* spank) {
  const char* distribution = std::getenv("SLURM_DISTRIBUTION");
  if (distribution == nullptr || !std::string_view(distribution).starts_with("arbitrary")) return;
  if (slurm_job_step_layout_get == nullptr || slurm_job_step_layout_free == nullptr) return;
  std::uint32_t job_id = 0, step = 0;
  if (spank_get_item(spank, S_JOB_ID, &job_id) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
    return;
  slurm_step_id_t id{};
  id.job_id = job_id;
  id.step_id = step;
  id.step_het_comp = NO_VAL;
  const Layout layout(slurm_job_step_layout_get(&id), &slurm_job_step_layout_free);
  if (layout == nullptr || layout->tasks == nullptr || layout->tids == nullptr) return;
  // A longer variable would keep every task from starting; without it the nodes report that the layout is not
  // known.
  if (const std::string text = format_layout(job_id, step, nodes_of_ranks(*layout)); !text.empty())
    setenv(layout_variable, text.c_str(), 1);
}

void publish_port_seed() {
  static bool drawn = false;
  std::array<std::uint64_t, 2> random{};
  if (drawn || getrandom(random.data(), sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random))
    return;
  const std::string digits = hexadecimal(random[0]) + hexadecimal(random[1]);
  drawn = setenv(port_seed_variable, digits.c_str(), 1) == 0;
}

void request_ring_fence(spank_handle* spank) {
  if (std::getenv(fence_variable) != nullptr || !has_several_nodes(spank) || !has_ring()) return;
  setenv(fence_variable, "ring", 1);
  setenv(fence_marker, "ring", 1);
}

}  // namespace muster::spank
