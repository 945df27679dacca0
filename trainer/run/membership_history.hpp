// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/muster.hpp"
#include "report/summary.hpp"
#include "run/membership_change.hpp"

namespace muster {

/// Which ranks a run has lost, and which have joined it.
class MembershipHistory {
 public:
  /// Adds a change after step `step`. `roster`, `active`: of the job after it.
  void add(const MembershipChange& change, const std::vector<Hello>& roster, int active, std::int64_t step);
  /// Gives every rank rank 0's history and, from rank 0's `facts`, the ranks with which the run started. A
  /// process that joins a run needs both, since it may become rank 0, which writes the summary. Collective
  /// over `world`.
  void share(Communicator world, Summary& facts);

  /// Summary::lost_ranks.
  const std::vector<std::string>& lost_ranks() const noexcept { return lost_ranks_; }
  /// Summary::joined_ranks.
  const std::vector<std::string>& joined_ranks() const noexcept { return joined_ranks_; }
  /// RunStatus::lost_hosts.
  const std::vector<std::string>& lost_hosts() const noexcept { return lost_hosts_; }

 private:
  std::vector<std::string> lost_ranks_, joined_ranks_, lost_hosts_;
};

}  // namespace muster
