// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace muster::control {

/// While it lives, the program does not get the errors of calls on this thread: Muster keeps or drops them,
/// and so the program has not observed the job's failure.
class BackgroundErrors {
 public:
  BackgroundErrors() noexcept : outer_(std::exchange(active_, true)) {}
  ~BackgroundErrors() { active_ = outer_; }
  BackgroundErrors(const BackgroundErrors&) = delete;
  BackgroundErrors& operator=(const BackgroundErrors&) = delete;

  static bool active() noexcept { return active_; }

 private:
  inline static thread_local bool active_ = false;
  bool outer_;
};

}  // namespace muster::control
