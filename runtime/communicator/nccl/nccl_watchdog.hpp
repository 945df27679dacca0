// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "communicator/nccl/nccl_communicator.hpp"

namespace muster::detail {

/// A thread that looks after the communicators while the program waits in CUDA itself
/// (cudaStreamSynchronize), where nobody else would see that an operation does not end.
class NcclWatchdog {
 public:
  /// `state` outlives it.
  NcclWatchdog(NcclState& state, std::chrono::milliseconds every);
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  /// How often it has to look, so that it is late by no more than a quarter.
  static std::chrono::milliseconds pace(const JobContext& job);

 private:
  void watch();

  NcclState& state_;
  std::chrono::milliseconds every_;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace muster::detail
