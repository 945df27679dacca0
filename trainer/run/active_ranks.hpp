// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "config/options.hpp"
#include "muster/muster.hpp"

namespace muster {

/// The ranks of the job that train: its first ones, at most as many as --elastic=MIN:MAX allows. The others
/// are spares, which wait until the loss of a rank makes them one of the first.
class ActiveRanks {
 public:
  /// Collective over the job, which must outlive this object.
  ActiveRanks(const Options& options, Job& job);

  int size() const noexcept { return size_; }
  bool has_spares() const noexcept { return size_ < job_->size(); }
  bool is_spare() const noexcept { return job_->rank() >= size_; }
  /// The number of each active rank's host, from 0 in the order of ranks.
  std::vector<int> hosts() const;
  int host_count() const;
  std::vector<Hello> spares() const;
  /// On a spare: waits until the active ranks have ended, and returns the code of release_spares(); or
  /// nothing after announce_growth().
  /// @throws muster::Error(ErrorCode::lost_rank) after the loss of a rank.
  std::optional<int> wait_for_end() const;
  /// On rank 0: the job is about to grow, and the spares with it.
  void announce_growth() const;
  /// On rank 0, when that failed; all ranks then pass a barrier.
  void withdraw_growth() const;
  /// On rank 0, when the active ranks have ended: their exit code, for the spares.
  void release_spares(int exit_code) const;

  /// Of the active ranks, on host memory. On a spare: of the spares.
  const Communicator& host() const noexcept { return host_; }
  /// The same on the memory that the job's world() uses. Collective over the job.
  Communicator tensors() const;

 private:
  Communicator restrict(const Communicator& all) const;

  Job* job_;
  int size_;
  Communicator host_;
};

}  // namespace muster
