// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/muster.hpp"

namespace muster {

/// "rank 1 (host n0), rank 3 (host n1)"
std::string describe_ranks(const std::vector<Hello>& ranks);

/// "3 ranks go on"
std::string describe_going_on(int ranks);

/// For a run whose state is not whole on the ranks that are left. `resumed`: from a checkpoint.
std::string describe_lost_state(bool resumed);

/// Which ranks a loss took, and which spares took their places, by the numbers that they had before; or which
/// ranks joined the job.
class MembershipChange {
 public:
  /// The job before the loss; the first `active` ranks trained, the others were spares.
  MembershipChange(std::vector<Hello> before, int active);

  std::vector<Hello> lost(const std::vector<Hello>& after) const;
  /// The spares that are among the first `active` ranks of the job after the loss.
  std::vector<Hello> joined(const std::vector<Hello>& after, int active) const;
  /// The ranks that the job did not have before.
  std::vector<Hello> added(const std::vector<Hello>& after) const;

 private:
  std::vector<Hello> before_;
  int active_;
};

}  // namespace muster
