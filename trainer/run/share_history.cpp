// SPDX-License-Identifier: Apache-2.0
#include "run/share_history.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <span>

#include "machine/gather_texts.hpp"
#include "text/split.hpp"

namespace muster {
namespace {

/// `lines`: without line breaks, none of them empty.
void share_lines(Communicator& world, std::vector<std::string>& lines) {
  const std::string own = world.rank() == 0 ? fmt::format("{}", fmt::join(lines, "\n")) : "";
  const std::string text = gather_texts(world, own).front();
  lines.clear();
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) lines.emplace_back(line);
  }
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
