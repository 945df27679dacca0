// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <atomic>
#include <chrono>

#include "failure/failure.hpp"
#include "failure/mailbox.hpp"
#include "timer.hpp"

namespace muster::control {

/// Prints the job's failure and ends this process when its program does not observe the failure: the program
/// computes, or waits outside of Muster. Every call but set_on_loss_time() and pause() on the
/// io_context's thread.
class ProcessWatchdog {
 public:
  ProcessWatchdog(asio::io_context& io, Mailbox& mailbox, int rank)
      : mailbox_(mailbox), rank_(rank), print_timer_(io), end_timer_(io) {}

  /// A callback for a lost rank may take this long. Thread-safe.
  void set_on_loss_time(std::chrono::milliseconds time) { on_loss_time_ = time; }
  /// While it is paused, it neither prints nor ends this process. Thread-safe.
  void pause(bool paused) { paused_ = paused; }
  /// On the reporter, prints the failure 0.3 s after it, or `grace` if that is shorter. Ends the process
  /// `grace` after the failure. Neither if the program observes the failure or leaves the job before.
  void start(const Failure& failure, std::chrono::milliseconds grace);
  /// Ends the process in `grace`, unless the program observes the failure or leaves the job before.
  void end_after(const Failure& failure, std::chrono::milliseconds grace);
  void stop();
  /// Prints `failure`, before it is the job's, if it is a loss and this rank reports it. Returns true then.
  bool print_loss(const Failure& failure) const;

 private:
  void print_failure();
  [[noreturn]] void end_process();

  Mailbox& mailbox_;
  int rank_;
  Timer print_timer_;
  Timer end_timer_;
  std::atomic<std::chrono::milliseconds> on_loss_time_{std::chrono::milliseconds{0}};
  std::atomic<bool> paused_{false};
};

}  // namespace muster::control
