// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "clock.hpp"

namespace muster::control {

/// The thread of a rank's control plane, with its io_context. In the simulator there is no thread: it calls
/// the handlers itself.
class ControlThread {
 public:
  /// Called on the thread with the text of an exception that a handler threw. The thread continues.
  using OnError = std::function<void(const std::string& reason)>;

  explicit ControlThread(OnError on_error) : on_error_(std::move(on_error)) {}

  asio::io_context& io() { return io_; }
  bool running() const { return running_; }
  void start();
  /// Runs the handlers that were posted, and lets the thread end once its io_context has nothing left to do.
  /// Ends it after `wait` at the latest.
  void end(std::chrono::milliseconds wait) noexcept;
  /// Waits 0.3 s for queued messages to be sent, and ends the thread. If they are not sent by then, exit()
  /// waits for them, up to `longest` (at least 1 s), and keeps `owner`, of which this object is a part.
  /// Without `owner` this call itself waits up to 1 s.
  void end_when_sent(std::shared_ptr<const void> owner, std::chrono::milliseconds longest) noexcept;

 private:
  // Does not end it. Returns whether it has ended within `wait`.
  bool finish(std::chrono::milliseconds wait) noexcept;
  void run();
  bool run_ready_handlers();
  void run_handlers(const std::function<void()>& run);
  void mark_ended();

  OnError on_error_;
  asio::io_context io_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;  // while the thread runs
  std::thread thread_;
  bool running_ = false;
  std::mutex mutex_;
  Condition changed_;
  bool finishing_ = false;
  bool ended_ = false;
};

}  // namespace muster::control
