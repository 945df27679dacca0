// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <filesystem>
#include <optional>

#include "config/options.hpp"
#include "files/folder_lock.hpp"
#include "report/run_status.hpp"

namespace muster {

/// The folder of --output, and the status file. Rank 0 only, except the constructor.
class OutputFolder {
 public:
  explicit OutputFolder(const Options& options);

  /// Creates the folder and locks it.
  /// @throws muster::Error when it cannot be created or another run has it.
  void open();
  /// Locks it after the loss of the rank that has opened it; does nothing on that rank. The lost rank may be
  /// stopped and still hold the lock: then this rank writes without it.
  void take_over();
  /// @throws muster::Error(ErrorCode::system)
  void write_status(const RunStatus& status) const { muster::write_status(status_path_, status); }
  /// Writes that `error` ended the run. Without open() it writes only to --status, because status.json may
  /// belong to another run.
  void write_failure(const std::exception& error, RunStatus status) noexcept;

 private:
  std::filesystem::path path_, status_path_;
  bool own_status_path_;  ///< from --status
  std::optional<FolderLock> lock_;
};

}  // namespace muster
