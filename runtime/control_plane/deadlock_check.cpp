// SPDX-License-Identifier: Apache-2.0
#include "control_plane/deadlock_check.hpp"

#include <algorithm>
#include <utility>

#include "control_plane/rank_ranges.hpp"

namespace muster::control {
namespace {

// What is more or longer is not sent to all ranks. Ranks in these calls do not count as waiting.
constexpr std::size_t max_waits = 64;
constexpr std::size_t max_name_length = 1000;

}  // namespace

DeadlockCheck::DeadlockCheck(RankStates first, int ranks) : job_ranks_(ranks), first_(std::move(first)) {
  std::erase_if(first_, [](const auto& entry) {
    const auto& [unused_rank, state] = entry;
    return !state.one_caller || (state.wait.communicator.empty() && state.round == 0);
  });
  for (const auto& [rank, state] : first_) {
    if (state.wait.communicator.empty() || state.wait.communicator.size() > max_name_length) continue;
    auto const found = std::find(waits_.begin(), waits_.end(), state.wait);
    if (found == waits_.end() && waits_.size() == max_waits) continue;
    wait_of_rank_[rank] = static_cast<std::size_t>(found - waits_.begin());
    if (found == waits_.end()) waits_.push_back(state.wait);
  }
}

protocol::RankStateQuery DeadlockCheck::query() const {
  protocol::RankStateQuery query;
  query.waits = waits_;
  for (auto& wait : query.waits) wait.members = nullptr;
  return query;
}

std::vector<int> DeadlockCheck::ranks() const {
  std::vector<int> ranks;
  for (const auto& [rank, unused_state] : first_) ranks.push_back(rank);
  return ranks;
}

std::vector<int> DeadlockCheck::not_entered(std::size_t wait, const RankStates& second) const {
  const auto& of = waits_[wait];
  auto ranks = of.number > 0 ? decode_ranks(of.members, job_ranks_) : std::vector<int>{of.peer};
  std::erase_if(ranks, [&](int rank) {
    auto const reply = second.find(rank);
    return reply == second.end() || reply->second.entered.size() != waits_.size() ||
           reply->second.entered[wait];
  });
  return ranks;
}

// A rank waits in at most one call, which on the control plane is also a round.
std::map<int, std::vector<std::size_t>> DeadlockCheck::awaited_lists(
    const RankStates& second, const std::map<std::uint64_t, std::size_t>& list_of_round) const {
  std::map<int, std::vector<std::size_t>> lists_of_rank;
  for (const auto& [rank, before] : first_) {
    auto const reply = second.find(rank);
    if (reply == second.end() || !reply->second.one_caller) continue;
    const auto& now = reply->second;
    if (auto const wait = wait_of_rank_.find(rank); wait != wait_of_rank_.end() && now.wait == before.wait)
      lists_of_rank[rank].push_back(wait->second);
    if (auto const round = list_of_round.find(before.round);
        round != list_of_round.end() && now.round == before.round)
      lists_of_rank[rank].push_back(round->second);
  }
  return lists_of_rank;
}

bool DeadlockCheck::is_any_deadlocked(const std::vector<int>& waiting, const RankStates& second,
                                      const Rounds& rounds) const {
  std::vector<std::vector<int>> awaited;
  for (std::size_t wait = 0; wait < waits_.size(); ++wait) awaited.push_back(not_entered(wait, second));
  std::map<std::uint64_t, std::size_t> list_of_round;
  for (const auto& [unused_name, round] : rounds) {
    list_of_round[round->serial()] = awaited.size();
    awaited.push_back(round->missing());
  }
  auto stuck = awaited_lists(second, list_of_round);
  while (true) {
    std::vector<bool> never_ends;
    for (const auto& ranks : awaited)
      never_ends.push_back(std::ranges::any_of(ranks, [&](int rank) { return stuck.contains(rank); }));
    // Whoever waits for none of those that are left may go on.
    auto const goes_on = [&](const auto& entry) {
      return std::ranges::none_of(entry.second, [&](std::size_t list) { return never_ends[list]; });
    };
    if (std::erase_if(stuck, goes_on) == 0) break;
  }
  return std::ranges::any_of(waiting, [&](int rank) { return stuck.contains(rank); });
}

}  // namespace muster::control
