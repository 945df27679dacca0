// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "muster/job.hpp"
#include "preflight/preflight.hpp"

namespace muster::control {
class ControlPlane;
}

namespace muster::detail {

/// The interface of a job for the `muster` command, which is built from the runtime's sources, in addition to
/// the public one.
struct JobInternals {
  /// Null in a world of one. shrink() and grow() make a new one.
  static std::shared_ptr<control::ControlPlane> plane(Job& job);
  /// The record of each rank; empty unless join_for_diagnosis() made the job.
  static const std::vector<bootstrap::JoinRecord>& records(Job& job);

  /// As Job::join(), but every rank reads its whole HostInventory, as if NCCL were to be used, and mismatches
  /// between ranks are returned in `findings` instead of ending the job or being logged.
  /// @throws Error when there can be no job: a rank is missing, sizes disagree.
  static Job join_for_diagnosis(const JoinOptions& options, std::vector<bootstrap::Finding>& findings);
};

}  // namespace muster::detail
