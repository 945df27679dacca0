// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "deadline.hpp"
#include "failure/failure.hpp"
#include "failure/reporter_check.hpp"
#include "timer.hpp"

namespace muster::control {

/// A rank has ended that this one waits for while it connects. `what()` is the failure's text.
struct EndedRankError : Error {
  explicit EndedRankError(Failure its) : Error(its.code, its.text), failure(std::move(its)) {}
  Failure failure;
};

/// After a loss or a growth, notices that a rank has ended before it was connected to the new job: no
/// connection of it breaks. Every call on the io_context's thread, or before that runs.
class EndedRankWatch {
 public:
  explicit EndedRankWatch(asio::io_context& io) : timer_(io) {}

  /// Watches the processes of `ranks`.
  void watch(std::vector<Hello> roster, std::vector<int> ranks, ReporterCheck::Query query);
  /// The loss of a rank that has ended. Asks the next few ranks, every 0.1 s at most, and takes up to 0.1 s.
  std::optional<Failure> find_loss();
  /// Calls `on_loss` once, when a rank has ended. Does nothing without watch().
  void start(std::function<void(const Failure&)> on_loss);
  void stop() {
    query_ = nullptr;  // the timer may have expired already
    timer_.cancel();
  }

 private:
  Timer timer_;
  std::vector<Hello> roster_;
  std::vector<int> ranks_;
  std::size_t asked_ = 0;  // so many times a rank was asked
  ReporterCheck::Query query_;
  Clock::time_point next_{};
};

}  // namespace muster::control
