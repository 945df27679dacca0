// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

#include "file/descriptor.hpp"

namespace muster {

/// Locks an output folder against a second run, until this object or its process ends: flock(2) on
/// FOLDER/.lock, a file with the host and process that hold it. On file systems shared by hosts it is as
/// reliable as their flock.
/// Where the file system has no flock, FOLDER/.lock.held exists while a run has the folder. A killed run
/// leaves it; the next run removes it if it sees that the holder ended: its process was on the same host, or
/// it was an earlier start of the same Slurm job. Otherwise a person has to.
class FolderLock {
 public:
  /// Waits up to `timeout` for a run that is about to end.
  /// @throws muster::Error: usage, with the holder of the lock; system.
  explicit FolderLock(const std::filesystem::path& folder,
                      std::chrono::milliseconds timeout = std::chrono::seconds(5));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False where the file system has no flock.
  bool has_flock() const { return held_.empty(); }

 private:
  void create_held_file(const std::filesystem::path& folder, std::chrono::steady_clock::time_point until);

  Descriptor file_;
  std::filesystem::path held_;  ///< FOLDER/.lock.held; empty with flock
};

}  // namespace muster
