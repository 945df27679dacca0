// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "muster/job.hpp"
#include "preflight/preflight.hpp"

namespace muster::control {
class ControlPlane;
}

namespace muster::detail {

/// What the `muster` command, which is built from the runtime's own sources, sees of a job beyond its public
/// interface.
struct JobInternals {
  /// Null in a world of one.
  static control::ControlPlane* plane(Job& job);
  /// As each rank put it up; empty unless the job was examined.
  static const std::vector<bootstrap::JoinRecord>& records(Job& job);

  /// As Job::join(), but every rank reads all of its HostInventory, as if NCCL were to be used, and what does
  /// not fit together comes back in `findings` instead of ending or being told.
  /// @throws Error for what leaves no job: a rank that is missing, sizes that disagree.
  static Job examine(const JoinOptions& options, std::vector<bootstrap::Finding>& findings);
};

}  // namespace muster::detail
