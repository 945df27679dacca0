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
    int reports = 0;
    std::vector<std::pair<int, protocol::CallReport>> with_counts = {};  ///< by rank in the job
  };

  std::map<std::pair<std::string, std::uint64_t>, RankCall> operations_;  // that some rank has not reported
};

}  // namespace muster::control
