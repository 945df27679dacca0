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

}  // namespace muster::control
