// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <atomic>
#include <chrono>

#include "control_plane/mailbox.hpp"
#include "failure/failure.hpp"

namespace muster::control {

/// Ends this process when its program does not observe the job's failure: the program computes, or waits
/// outside of Muster. Every call but set_on_loss_time() on the io_context's thread.
class ProcessWatchdog {
 public:
  ProcessWatchdog(asio::io_context& io, const Mailbox& mailbox, int rank)
      : mailbox_(mailbox), rank_(rank), timer_(io) {}

  /// A callback for a lost rank may take this long. Thread-safe.
  void set_on_loss_time(std::chrono::milliseconds time) { on_loss_time_ = time; }
  /// Ends the process `grace` after the failure, unless the program observes it or leaves the job before.
  void start(const Failure& failure, std::chrono::milliseconds grace);
  void stop() { timer_.cancel(); }

 private:
  [[noreturn]] void end_process();

  const Mailbox& mailbox_;
  int rank_;
  asio::steady_timer timer_;
  std::atomic<std::chrono::milliseconds> on_loss_time_{std::chrono::milliseconds{0}};
};

}  // namespace muster::control
