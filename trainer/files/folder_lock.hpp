// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

#include "file/descriptor.hpp"

namespace muster {

/// Locks an output folder against a second run, until this object or its process ends: flock(2) on
/// FOLDER/.lock, a file with the host and process that hold it. On file systems shared by hosts it is as
/// reliable as their flock. On file systems without flock nothing is locked.
class FolderLock {
 public:
  /// Waits up to `timeout` for a run that is about to end.
  /// @throws muster::Error: usage, with the holder of the lock; system.
  explicit FolderLock(const std::filesystem::path& folder,
                      std::chrono::milliseconds timeout = std::chrono::seconds(5));

 private:
  Descriptor file_;
};

}  // namespace muster
