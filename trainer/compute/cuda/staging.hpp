// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "compute/cuda/gpu.hpp"

namespace muster::compute::cuda {

/// Small arrays of the host's on their way to the GPU: each is put into pinned memory, so that the caller may
/// go on, and copied by the stream. Two take turns; the third call waits until the first one's copy is done,
/// which it is as long as the host is no more than a step ahead.
class Staging {
 public:
  explicit Staging(Gpu& gpu) : gpu_(gpu) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Where it will be on the GPU, for what is enqueued before the next call.
  const void* send(const void* from, std::size_t bytes);

 private:
  struct Slot {
    std::size_t bytes = 0;
    std::unique_ptr<Pinned> host;
    std::unique_ptr<Mark> copied;
  };
  Gpu& gpu_;
  Slot slots_[2];
  int turn_ = 0;
  void* device_ = nullptr;
  std::size_t device_bytes_ = 0;
};

}  // namespace muster::compute::cuda
