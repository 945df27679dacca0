// SPDX-License-Identifier: Apache-2.0
#include "run/membership_history.hpp"

#include <fmt/format.h>

#include <span>

#include "machine/gather_texts.hpp"

namespace muster {

void MembershipHistory::add(const MembershipChange& change, const std::vector<Hello>& roster, int active,
                            std::int64_t step) {
  const MembershipChange::Texts texts = change.describe(roster, active);
  const auto note = [&](std::vector<std::string>& list, const std::string& ranks) {
    if (!ranks.empty()) list.push_back(fmt::format("{}, after step {}", ranks, step));
  };
  note(lost_ranks_, texts.lost);
  note(joined_ranks_, texts.replacing);
  note(joined_ranks_, texts.added);
  for (const Hello& rank : change.lost_members(roster)) lost_hosts_.push_back(rank.host);
}

void MembershipHistory::share(Communicator world, Summary& facts) {
  facts.ranks = share_rank_info(world, facts.ranks);
  facts.peak_flops = 0;
  for (const RankInfo& rank : facts.ranks) facts.peak_flops += rank.peak_flops;
  std::int64_t counts[] = {facts.world_size, facts.hosts};
  world.broadcast(std::span<std::int64_t>(counts), 0);
  facts.world_size = static_cast<int>(counts[0]);
  facts.hosts = static_cast<int>(counts[1]);
  for (auto* const list : {&lost_ranks_, &joined_ranks_, &lost_hosts_}) {
    if (world.rank() != 0) list->clear();
    *list = gather_lines(world, *list).front();
  }
}

}  // namespace muster
