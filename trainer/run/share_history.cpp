// SPDX-License-Identifier: Apache-2.0
#include "run/share_history.hpp"

#include <cstdint>
#include <span>

#include "machine/gather_texts.hpp"

namespace muster {
namespace {

void share_lines(Communicator& world, std::vector<std::string>& lines) {
  if (world.rank() != 0) lines.clear();
  lines = gather_lines(world, lines).front();
}

}  // namespace

void share_history(Communicator world, Summary& facts, std::vector<std::string>& lost_hosts) {
  facts.ranks = share_rank_info(world, facts.ranks);
  facts.peak_flops = 0;
  for (const RankInfo& rank : facts.ranks) facts.peak_flops += rank.peak_flops;
  std::int64_t counts[] = {facts.world_size, facts.hosts};
  world.broadcast(std::span<std::int64_t>(counts), 0);
  facts.world_size = static_cast<int>(counts[0]);
  facts.hosts = static_cast<int>(counts[1]);
  share_lines(world, facts.lost_ranks);
  share_lines(world, facts.joined_ranks);
  share_lines(world, lost_hosts);
}

}  // namespace muster
