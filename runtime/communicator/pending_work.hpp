// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "deadline.hpp"

namespace muster::detail {

/// Operations that were started and may not have completed yet, for Work. The communicator outlives it.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  /// True when they have completed. @throws the error that ended them.
  virtual bool test() = 0;
  /// Returns when they have completed. @throws the error that ended them.
  virtual void wait() = 0;
  /// True when they have completed; false when `deadline` passes first. @throws the error that ended them.
  virtual bool wait_until(const Deadline& deadline) = 0;
  /// Ends this rank's part of them without waiting for other ranks.
  virtual void abandon() noexcept = 0;
};

}  // namespace muster::detail
