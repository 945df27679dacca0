// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "clock.hpp"
#include "protocol/messages.hpp"

namespace muster::control {

/// Rank 0's warnings of calls that take long: one line for each stall, however many ranks it makes wait.
class StallLog {
 public:
  /// False when another member has reported the same operation with the same waiting time or a longer one.
  bool is_new(const protocol::StalledOperation& report);
  /// Prints `text`, unless a warning of the same stall was printed.
  void warn(std::chrono::milliseconds waited, const std::string& text);

 private:
  // By communicator: operation number and waiting time of the last report.
  std::map<std::string, std::pair<std::uint64_t, std::chrono::milliseconds>> last_reports_;
  Clock::time_point last_printed_;
  std::chrono::milliseconds last_printed_wait_{0};
};

}  // namespace muster::control
