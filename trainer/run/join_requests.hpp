// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "config/options.hpp"
#include "muster/muster.hpp"
#include "report/progress.hpp"
#include "run/active_ranks.hpp"
#include "run/join_folder.hpp"
#include "training/workload.hpp"

namespace muster {

/// The processes that want to join the job (--join). Rank 0 finds them in the folder of --output.
class JoinRequests {
 public:
  /// The options and the job must outlive this object.
  JoinRequests(const Options& options, Job& job) : options_(options), job_(job) {}

  /// True on rank 0 of a run with --elastic when there are some. The workload must outlive this object.
  bool has_any(const ActiveRanks& ranks, const Workload& workload);
  /// Takes them into the job. False, after a warning, when they do not all come in time: the job goes on as
  /// before. Collective over the job.
  /// @throws muster::Error(ErrorCode::lost_rank) when a rank of the job is lost.
  bool accept(const ActiveRanks& ranks, Progress& progress);

 private:
  const Options& options_;
  Job& job_;
  std::optional<JoinFolder> folder_;  ///< on rank 0, with --elastic
};

}  // namespace muster
