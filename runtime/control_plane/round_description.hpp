// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control_plane/gather_round.hpp"
#include "failure/failure.hpp"
#include "muster/job.hpp"

namespace muster::control {

/// By name: the rounds that wait for ranks.
using Rounds = std::map<std::string, std::unique_ptr<GatherRound>>;

/// "2 of 8 ranks missing after 5 s: rank 3 (host n1), rank 4 (host n1), of which 1 never connected".
/// `ever_connected`: the ranks that connected to rank 0, without rank 0.
std::string describe_missing(const std::vector<Hello>& roster, const GatherRound& round,
                             const std::set<int>& ever_connected, std::chrono::milliseconds waited);

/// "; rank 3 (host n1) waits in split 2 for rank 5 (host n2)": ranks that are missing may wait in other
/// rounds than `late`, for ranks that are not among them. Empty if none does. Removes from `ranks` those that
/// wait, and adds those for which they wait.
std::string describe_other_rounds(const std::vector<Hello>& roster, const Rounds& rounds,
                                  std::set<int>& ranks, const GatherRound* late = nullptr);

/// "split 2: 1 of 3 ranks missing after 5 s: rank 3 (host n1); rank 3 (host n1) waits in …". Fills
/// `unexplained`: the ranks of which the text does not say for whom they wait.
std::string describe_late(const std::vector<Hello>& roster, const Rounds& rounds, const std::string& name,
                          const GatherRound& round, const std::set<int>& ever_connected,
                          std::set<int>& unexplained);

/// A rank reports the calls of the whole job and of its communicators. Rank 0 also knows in which gather or
/// broadcast of some ranks it waits.
protocol::RankState add_round(const Rounds& rounds, int rank, protocol::RankState state);

/// The ranks that wait in leave(). They make no further call.
std::set<int> leaving_ranks(const Rounds& rounds);

/// "rank 3 (host n1) left the job while rank 0 (host n0) waits for it in split 2: …". `call`: "split 2".
/// The first rank that is gone reports it.
Failure departure(const std::vector<Hello>& roster, const std::vector<int>& gone,
                  const std::vector<int>& waiting, const std::string& call);
/// When ranks wait in a round for ranks that wait in leave().
std::optional<Failure> find_departure(const std::vector<Hello>& roster, const Rounds& rounds);

}  // namespace muster::control
