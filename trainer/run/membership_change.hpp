// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/muster.hpp"

namespace muster {

/// "rank 1 (host n0), rank 3 (host n1)"
std::string describe_ranks(const std::vector<Hello>& ranks);

/// For a run whose state is not whole on the ranks that are left. `resumed`: from a checkpoint.
std::string describe_lost_state(bool resumed);

/// Which ranks a loss took, and which spares took their places, by the numbers that they had before; or which
/// ranks joined the job.
class MembershipChange {
 public:
  /// The job before the loss; the first `active` ranks trained, the others were spares.
  MembershipChange(std::vector<Hello> before, int active);
  /// The job has grown to `roster`. Its new ranks can be lost, too.
  void grow(const std::vector<Hello>& roster) { new_ranks_ = added(roster); }

  /// The ranks of lost(), joined() and added(), as by describe_ranks().
  struct Texts {
    std::string lost, replacing, added;
  };
  Texts describe(const std::vector<Hello>& after, int active) const;

  std::vector<Hello> lost(const std::vector<Hello>& after) const;
  /// The same without the new ranks: one of them may have refused to train, and would do so again.
  std::vector<Hello> lost_members(const std::vector<Hello>& after) const { return lost_of(before_, after); }
  /// The spares that are among the first `active` ranks of the job after the loss.
  std::vector<Hello> joined(const std::vector<Hello>& after, int active) const;
  /// The ranks that the job did not have before.
  std::vector<Hello> added(const std::vector<Hello>& after) const;

 private:
  static std::vector<Hello> lost_of(const std::vector<Hello>& ranks, const std::vector<Hello>& after);

  std::vector<Hello> before_, new_ranks_;
  int active_;
};

/// The line about a loss, and that about a growth. `ranks` train on, from `step`, and the change took so many
/// seconds.
std::string describe_loss(const Error& loss, const MembershipChange::Texts& change, std::int64_t step,
                          int ranks, double seconds);
std::string describe_growth(const MembershipChange::Texts& change, std::int64_t step, int ranks,
                            double seconds);

}  // namespace muster
