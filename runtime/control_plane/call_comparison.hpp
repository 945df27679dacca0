// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "failure/failure.hpp"

namespace muster::control {

/// Rank 0's comparison of the calls that the ranks report.
class CallComparison {
 public:
  /// The job's failure when `rank` makes another call than the rank that reported this operation first, or
  /// has other counts than a rank that reported them before.
  std::optional<Failure> add(int rank, const protocol::CallReport& report, const std::vector<Hello>& roster);

 private:
  struct RankCall {
    int rank;
    std::string call;
    std::uint64_t digest;
    std::uint64_t age;  ///< the key in by_age_
    int reports = 0;
    std::vector<std::pair<int, protocol::CallReport>> with_counts = {};  ///< by rank in the job
  };

  using CallMap = std::map<std::pair<std::string, std::uint64_t>, RankCall>;

  void forget(CallMap::iterator operation);

  CallMap operations_;  // that some rank has not reported
  std::map<std::uint64_t, CallMap::iterator> by_age_;
  std::uint64_t next_age_ = 0;
};

}  // namespace muster::control
