// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "failure/failure.hpp"
#include "failure/rank_state_collector.hpp"
#include "muster/job.hpp"

namespace muster::control {

/// Explains an operation that takes too long or failed on one rank, by what every member does.
class StallDiagnosis {
 public:
  /// `report` is the message of rank `reporter`.
  StallDiagnosis(int reporter, protocol::StalledOperation report, std::vector<int> members)
      : reporter_(reporter), report_(std::move(report)), members_(std::move(members)) {}

  /// The first operation in which the ranks made different calls, as far as they know: at most the reported
  /// one. Nothing when they made the same calls.
  std::optional<std::uint64_t> first_mismatch(const RankStates& states) const;
  /// Names the ranks by their calls of the reported operation, which differ.
  Failure mismatch(const std::vector<Hello>& roster, const RankStates& states) const;
  /// Names the ranks that did not enter the operation, entered another one in its place, or do not reply.
  /// Nothing when it was a warning and the reporter no longer waits.
  std::optional<Failure> diagnose(const std::vector<Hello>& roster, const RankStates& states) const;
  /// Those of `ranks` that are members and have not entered the operation, as they reply.
  std::vector<int> find_behind(const RankStates& states, const std::set<int>& ranks) const;
  /// The members other than the reporter that did not enter the operation, or do not reply.
  std::set<int> find_missing(const RankStates& states) const;
  /// The reporter and the other members that wait in the operation, as they reply, in increasing order.
  std::vector<int> find_waiting(const RankStates& states) const;

 private:
  std::string describe_stall(const std::vector<Hello>& roster) const;
  std::string describe_last_operation(const protocol::RankState& state) const;
  std::string describe_waiting_ranks(const std::vector<Hello>& roster, const std::vector<int>& inside,
                                     bool all_entered, std::size_t left_count) const;
  bool is_resolved(const RankStates& states) const;
  std::map<std::string, std::vector<int>> calls(const RankStates& states) const;

  int reporter_;
  protocol::StalledOperation report_;
  std::vector<int> members_;
};

}  // namespace muster::control
