// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "communicator/nccl/nccl.hpp"

namespace muster::detail {

/// A thread that looks after the communicators while the program waits in CUDA itself
/// (cudaStreamSynchronize), where nobody else would see that an operation does not end.
class NcclWatch {
 public:
  /// `state` outlives it.
  NcclWatch(NcclState& state, std::chrono::milliseconds every);
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

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
