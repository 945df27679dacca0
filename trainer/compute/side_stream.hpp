// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "muster/types.hpp"

namespace muster::compute {

/// A position in a SideStream.
class StreamPosition {
 public:
  virtual ~StreamPosition() = default;
  /// Work that is enqueued on the device's main stream from now on waits for this position.
  virtual void block_main() = 0;
};

/// A stream of a device beside its main one (UpdateCompute::stream()). The host waits for nothing here.
class SideStream {
 public:
  virtual ~SideStream() = default;
  virtual Stream stream() const = 0;
  /// Work that is enqueued here from now on waits for all that the main stream has now.
  virtual void wait_for_main() = 0;
  /// Behind all that is enqueued here now.
  virtual std::unique_ptr<StreamPosition> position() = 0;
};

}  // namespace muster::compute
