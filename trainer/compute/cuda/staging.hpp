// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "compute/cuda/gpu.hpp"

namespace muster::compute::cuda {

/// Small arrays of the host's on their way to the GPU: each is put into pinned memory, so that the caller may
/// go on, and copied by the stream. Places take turns; a call waits until the copy from its place is done,
/// which it is where there are as many places as calls in two steps, and the host is no more than a step
/// ahead.
class Staging {
 public:
  explicit Staging(Gpu& gpu) : gpu_(gpu) { take_turns(2); }
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// At least so many places.
  void take_turns(std::size_t places);
  /// Where it will be on the GPU, for what is enqueued before the next call. `most`: bytes that a later call
  /// may send; more than before waits for all that is enqueued.
  const void* send(const void* from, std::size_t bytes, std::size_t most);
  const void* send(const void* from, std::size_t bytes) { return send(from, bytes, bytes); }

 private:
  void make_room(std::size_t bytes);

  Gpu& gpu_;
  std::vector<std::unique_ptr<Mark>> copied_;  ///< by place
  std::size_t turn_ = 0;
  std::unique_ptr<Pinned> host_;  ///< for all places
  void* device_ = nullptr;
  std::size_t room_ = 0;  ///< bytes, of each
};

}  // namespace muster::compute::cuda
