// SPDX-License-Identifier: Apache-2.0
#include "control_plane/round_description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "deadline.hpp"
#include "roster/roster.hpp"

namespace muster::control {
namespace {

using bootstrap::describe_ranks;

// More are not described when a round is late.
constexpr std::size_t max_other_rounds = 4;

}  // namespace

std::string describe_missing(const std::vector<Hello>& roster, const GatherRound& round,
                             const std::set<int>& ever_connected, std::chrono::milliseconds waited) {
  auto const missing = round.missing();
  std::vector<int> absent;
  std::copy_if(missing.begin(), missing.end(), std::back_inserter(absent),
               [&](int rank) { return rank != 0 && !ever_connected.contains(rank); });
  auto text = describe_ranks(roster, missing);
  if (!absent.empty()) {
    text += absent.size() == missing.size() ? ", never connected to rank 0"
                                            : fmt::format(", of which {} never connected", absent.size());
  }
  return fmt::format("{} of {} ranks missing after {}: {}", missing.size(), round.members().size(),
                     format_duration(waited), text);
}

std::string describe_other_rounds(const std::vector<Hello>& roster, const Rounds& rounds,
                                  std::set<int>& ranks, const GatherRound* late) {
  std::string text;
  std::set<const GatherRound*> described{late};
  auto const describe = [&](const std::string& name, const GatherRound& round) {
    auto waiting = round.arrived();
    std::erase_if(waiting, [&](int rank) { return !ranks.contains(rank); });
    auto const awaited = round.missing();
    auto const is_known = [&](int rank) { return ranks.contains(rank); };
    if (waiting.empty() || std::any_of(awaited.begin(), awaited.end(), is_known)) return false;
    text += fmt::format("; {} wait{} in {} for {}", describe_ranks(roster, waiting),
                        waiting.size() == 1 ? "s" : "", name, describe_ranks(roster, awaited));
    for (int const rank : waiting) ranks.erase(rank);
    ranks.insert(awaited.begin(), awaited.end());
    return true;
  };
  auto const next = [&] {
    return std::any_of(rounds.begin(), rounds.end(), [&](const auto& entry) {
      const auto& [name, round] = entry;
      return !described.contains(round.get()) && describe(name, *round) &&
             described.insert(round.get()).second;
    });
  };
  while (described.size() <= max_other_rounds && next()) {
  }
  return text;
}

std::string describe_late(const std::vector<Hello>& roster, const Rounds& rounds, const std::string& name,
                          const GatherRound& round, const std::set<int>& ever_connected,
                          std::set<int>& unexplained) {
  auto text = name + ": " + describe_missing(roster, round, ever_connected, round.timeout());
  auto const arrived = round.arrived();
  auto const missing = round.missing();
  unexplained = {missing.begin(), missing.end()};
  if (auto const others = describe_other_rounds(roster, rounds, unexplained, &round); !others.empty())
    text += others;
  else if (arrived.size() <= missing.size())
    text += fmt::format("; only {} came", describe_ranks(roster, arrived));  // perhaps to a wrong call
  return text;
}

protocol::RankState add_round(const Rounds& rounds, int rank, protocol::RankState state) {
  auto const round = std::find_if(rounds.begin(), rounds.end(),
                                  [rank](const auto& entry) { return entry.second->has_arrived(rank); });
  state.round = round == rounds.end() ? 0 : round->second->serial();
  if (state.current_wait.empty() && round != rounds.end()) state.current_wait = round->first;
  return state;
}

std::set<int> leaving_ranks(const Rounds& rounds) {
  std::set<int> ranks;
  for (const auto& [unused_name, round] : rounds) {
    if (!round->last()) continue;
    auto const arrived = round->arrived();
    ranks.insert(arrived.begin(), arrived.end());
  }
  return ranks;
}

Failure departure(const std::vector<Hello>& roster, const std::vector<int>& gone,
                  const std::vector<int>& waiting, const std::string& call) {
  auto const text =
      fmt::format("{} left the job while {} wait{} for {} in {}: all ranks must make the same calls",
                  describe_ranks(roster, gone), describe_ranks(roster, waiting),
                  waiting.size() == 1 ? "s" : "", gone.size() == 1 ? "it" : "them", call);
  return {ErrorCode::usage, gone.front(), text};
}

std::optional<Failure> find_departure(const std::vector<Hello>& roster, const Rounds& rounds) {
  auto const leaving = leaving_ranks(rounds);
  if (leaving.empty()) return std::nullopt;  // there may be thousands of rounds
  for (const auto& [name, round] : rounds) {
    auto gone = round->missing();
    std::erase_if(gone, [&leaving](int rank) { return !leaving.contains(rank); });
    auto const waiting = round->arrived();
    if (!gone.empty() && !waiting.empty() && !round->last()) return departure(roster, gone, waiting, name);
  }
  return std::nullopt;
}

}  // namespace muster::control
