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
  /// The host waits for it.
  virtual void wait() = 0;
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
  /// Behind all that is enqueued here now.
  virtual std::unique_ptr<StreamPosition> position() = 0;
};

}  // namespace muster::compute
