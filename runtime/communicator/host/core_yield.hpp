// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::detail {

/// Gives the core to other threads between two polls of a wait. Not thread-safe.
class CoreYield {
 public:
  /// Yields. A thread that yields a core on which others compute gets it back after their time slices,
  /// milliseconds later, while one that sleeps is woken when it is due. So after a yield that took long the
  /// next calls sleep.
  void yield();
  /// Sleeps for 0.1 ms: for a thread that waits for computations, and takes no time from them.
  static void sleep();

 private:
  int sleeps_left_ = 0;
};

}  // namespace muster::detail
