// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

namespace muster {

/// Keeps a second run out of an output folder for as long as it lives, and no longer than its process: a lock
/// of flock(2) on FOLDER/.lock, in which host and process stand. On file systems of several hosts it works as
/// well as their flock does; where there is none, nobody is kept out.
class FolderLock {
 public:
  /// Waits for `patience` for a run that is about to end.
  /// @throws muster::Error: usage, with who has it; system.
  explicit FolderLock(const std::filesystem::path& folder,
                      std::chrono::milliseconds patience = std::chrono::seconds(5));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace muster
