// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <functional>

#include "transport/process_handle.hpp"

namespace muster::control {

/// Watches the process that started this rank. Every call on the io_context's thread.
class LauncherWatch {
 public:
  explicit LauncherWatch(asio::io_context& io) : exit_(io) {}

  /// Calls `on_exit` when `launcher` ends; watches nothing if the kernel does not allow it.
  void start(ProcessHandle launcher, std::function<void()> on_exit);
  void stop();

 private:
  ProcessHandle launcher_;
  asio::posix::stream_descriptor exit_;
};

}  // namespace muster::control
