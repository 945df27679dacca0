// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <set>
#include <vector>

namespace muster::control {

/// The ranks without which the job goes on. Thread-safe.
class LostRanks {
 public:
  void add(const std::vector<int>& ranks) {
    std::lock_guard const lock(mutex_);
    ranks_.insert(ranks.begin(), ranks.end());
  }
  /// In increasing order.
  std::vector<int> list() const {
    std::lock_guard const lock(mutex_);
    return {ranks_.begin(), ranks_.end()};
  }

 private:
  mutable std::mutex mutex_;
  std::set<int> ranks_;
};

}  // namespace muster::control
