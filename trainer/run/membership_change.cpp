// SPDX-License-Identifier: Apache-2.0
#include "run/membership_change.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "text/plural.hpp"

namespace muster {
namespace {

/// The rank's number in `roster`; the roster's size when it is not there.
std::size_t find_rank(const Hello& rank, const std::vector<Hello>& roster) {
  const auto is_same = [&](const Hello& other) { return other.host == rank.host && other.pid == rank.pid; };
  return static_cast<std::size_t>(std::find_if(roster.begin(), roster.end(), is_same) - roster.begin());
}

}  // namespace

std::string describe_ranks(const std::vector<Hello>& ranks) {
  std::vector<std::string> names;
  for (const Hello& rank : ranks) names.push_back(fmt::format("rank {} (host {})", rank.rank, rank.host));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string describe_going_on(int ranks) {
  return fmt::format("{} {} on", plural(ranks, "rank"), ranks == 1 ? "goes" : "go");
}

std::string describe_lost_state(bool resumed) {
  return fmt::format("no rank has a part of the state, so {}",
                     resumed ? "the newest checkpoint was read" : "the run begins anew");
}

MembershipChange::MembershipChange(std::vector<Hello> before, int active)
    : before_(std::move(before)), active_(active) {}

std::vector<Hello> MembershipChange::lost(const std::vector<Hello>& after) const {
  std::vector<Hello> lost;
  for (const Hello& rank : before_) {
    if (find_rank(rank, after) == after.size()) lost.push_back(rank);
  }
  return lost;
}

std::vector<Hello> MembershipChange::joined(const std::vector<Hello>& after, int active) const {
  std::vector<Hello> joined;
  for (const Hello& rank : before_) {
    if (rank.rank >= active_ && find_rank(rank, after) < static_cast<std::size_t>(active))
      joined.push_back(rank);
  }
  return joined;
}

std::vector<Hello> MembershipChange::added(const std::vector<Hello>& after) const {
  std::vector<Hello> added;
  for (const Hello& rank : after) {
    if (find_rank(rank, before_) == before_.size()) added.push_back(rank);
  }
  return added;
}

}  // namespace muster
