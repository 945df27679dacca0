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

std::string describe_going_on(int ranks) {
  return fmt::format("{} {} on", plural(ranks, "rank"), ranks == 1 ? "goes" : "go");
}

}  // namespace

std::string describe_ranks(const std::vector<Hello>& ranks) {
  std::vector<std::string> names;
  for (const Hello& rank : ranks) names.push_back(fmt::format("rank {} (host {})", rank.rank, rank.host));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string describe_lost_state(bool resumed) {
  return fmt::format("no rank has a part of the state, so {}",
                     resumed ? "the newest checkpoint was read" : "the run begins anew");
}

MembershipChange::MembershipChange(std::vector<Hello> before, int active)
    : before_(std::move(before)), active_(active) {}

MembershipChange::Texts MembershipChange::describe(const std::vector<Hello>& after, int active) const {
  return {describe_ranks(lost(after)), describe_ranks(joined(after, active)), describe_ranks(added(after))};
}

std::vector<Hello> MembershipChange::lost_of(const std::vector<Hello>& ranks,
                                             const std::vector<Hello>& after) {
  std::vector<Hello> lost;
  for (const Hello& rank : ranks) {
    if (find_rank(rank, after) == after.size()) lost.push_back(rank);
  }
  return lost;
}

std::vector<Hello> MembershipChange::lost(const std::vector<Hello>& after) const {
  std::vector<Hello> lost = lost_members(after);
  for (const Hello& rank : lost_of(new_ranks_, after)) lost.push_back(rank);
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

std::string describe_loss(const Error& loss, const MembershipChange::Texts& change, std::int64_t step,
                          int ranks, double seconds) {
  return fmt::format("warning: {}: lost {}, after step {}; {}, {:.1f} s after the loss was noticed{}{}",
                     loss.what(), change.lost, step, describe_going_on(ranks), seconds,
                     change.replacing.empty() ? "" : "; joined by the spare ", change.replacing);
}

std::string describe_growth(const MembershipChange::Texts& change, std::int64_t step, int ranks,
                            double seconds) {
  return fmt::format("{} joined, after step {}; {}, {:.1f} s later", change.added, step,
                     describe_going_on(ranks), seconds);
}

}  // namespace muster
