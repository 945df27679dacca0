// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "communicator/communicator_group.hpp"
#include "communicator/nccl/nccl_state.hpp"

namespace muster::detail {

/// A thread that monitors the communicators while the program waits in CUDA itself (cudaStreamSynchronize),
/// where nothing else would detect an operation that does not complete.
class NcclWatchdog {
 public:
  /// `state` outlives it.
  NcclWatchdog(NcclState& state, std::chrono::milliseconds interval);
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  /// The interval between polls: short enough that a warning or a time-out is late by at most a quarter.
  static std::chrono::milliseconds poll_interval(const JobContext& job);

 private:
  void run();

  NcclState& state_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace muster::detail
