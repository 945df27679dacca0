// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "compute/cuda/gpu.hpp"

namespace muster::compute::cuda {

/// Copies small host arrays to the GPU. Each array goes to a pinned buffer first, so that the caller may
/// reuse its own, and the stream copies it from there. Buffers are used in turn; a call waits until the last
/// copy from its buffer is done. With a buffer for every call of two steps, and a host at most one step
/// ahead, that copy is always done.
class Staging {
 public:
  explicit Staging(Gpu& gpu) : gpu_(gpu) { reserve_buffers(2); }
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Makes at least so many buffers.
  void reserve_buffers(std::size_t buffers);
  /// Returns the array's address on the GPU, valid for work that is enqueued before the next call. `most`:
  /// bytes that a later call may send; a larger value than before waits for all enqueued work.
  const void* send(const void* from, std::size_t bytes, std::size_t most);
  const void* send(const void* from, std::size_t bytes) { return send(from, bytes, bytes); }

 private:
  void reallocate(std::size_t bytes);

  Gpu& gpu_;
  std::vector<std::unique_ptr<Event>> copy_done_;  ///< by buffer
  std::size_t next_ = 0;
  std::unique_ptr<PinnedMemory> host_;  ///< all buffers
  void* device_ = nullptr;
  std::size_t capacity_ = 0;  ///< bytes of each buffer
};

}  // namespace muster::compute::cuda
