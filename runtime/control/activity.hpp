// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "control/channel.hpp"

namespace muster::control {

/// Where a rank is in one communicator: how many operations of the whole group it entered, and the name of
/// what it entered last, messages between two ranks included. Written by the
/// program's thread, read by the control plane's.
struct Activity {
  std::atomic<std::uint64_t> number{0};
  std::atomic<const char*> operation{""};  ///< a string literal
  std::atomic<bool> inside{false};         ///< its program waits in that operation
};

/// Where a rank is in all its communicators. Thread-safe.
class Activities {
 public:
  /// From now on and while the result lives.
  std::shared_ptr<Activity> follow(const std::string& group);
  /// The answer to rank 0's question where this rank is in `group`.
  Message here(const std::string& group) const;
  /// "MPI_Init, all_reduce (operation 5 on communicator 'world')": what the program waits in, empty for
  /// nothing.
  std::string inside() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Activity>> of_group_;
};

}  // namespace muster::control
