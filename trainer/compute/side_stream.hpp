// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "muster/types.hpp"

namespace muster::compute {

/// A position in a SideStream.
class StreamPosition {
 public:
  virtual ~StreamPosition() = default;
  /// Work that is enqueued on the device's main stream from now on waits for this position.
  virtual void block_main() = 0;
  /// The host waits for it. @throws Error(ErrorCode::deadline) when the device does not reach it in time.
  virtual void wait() = 0;
};

/// Host memory that is pinned while this lives. No copy from it may be in flight when it is destroyed.
class PinnedRange {
 public:
  virtual ~PinnedRange() = default;
};

/// A stream of a device beside its main one (UpdateCompute::stream()). Its functions do not wait.
class SideStream {
 public:
  virtual ~SideStream() = default;
  virtual Stream stream() const = 0;
  /// Work that is enqueued here from now on waits for all that the main stream has now.
  virtual void wait_for_main() = 0;
  /// Copies from the device to UpdateCompute::transfer_memory().
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  /// Copies to the device from UpdateCompute::transfer_memory(), or from memory that pin() has pinned, which
  /// must not change until a later position is reached.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  /// Pins host memory. Where that cannot be, an upload from it waits.
  virtual std::unique_ptr<PinnedRange> pin(void* memory, std::size_t bytes) = 0;
  /// Behind all that is enqueued here now.
  virtual std::unique_ptr<StreamPosition> position() = 0;
};

}  // namespace muster::compute
