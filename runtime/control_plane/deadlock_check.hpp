// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "control_plane/round_description.hpp"
#include "failure/rank_state_collector.hpp"

namespace muster::control {

/// Finds the ranks whose waits never end: each waits in a call for one of them, which waits in another call.
/// Two queries tell it. A rank that waits in the same call in both has waited there all the time, and a call
/// that it has not entered by the second one was not entered before. So all these waits existed together when
/// the first query ended. Then no rank can end them.
class DeadlockCheck {
 public:
  /// `first`: the replies to a query. The job has `ranks` ranks.
  DeadlockCheck(RankStates first, int ranks);

  /// The second query, and the ranks to which it goes: they seem to wait.
  protocol::RankStateQuery query() const;
  std::vector<int> ranks() const;
  /// Whether the wait of one of `waiting` never ends. `second`: the replies to the query.
  bool is_any_deadlocked(const std::vector<int>& waiting, const RankStates& second,
                         const Rounds& rounds) const;

 private:
  // By rank: the indices of the lists of ranks for which it waits. The first ones are those of waits_.
  std::map<int, std::vector<std::size_t>> awaited_lists(
      const RankStates& second, const std::map<std::uint64_t, std::size_t>& list_of_round) const;
  // The ranks that the wait needs, and that had not entered it by their reply.
  std::vector<int> not_entered(std::size_t wait, const RankStates& second) const;

  int job_ranks_;
  RankStates first_;                   // of ranks that seem to wait
  std::vector<protocol::Wait> waits_;  // each once
  std::map<int, std::size_t> wait_of_rank_;
};

}  // namespace muster::control
