// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
  /// Locks it after a loss, unless this rank has opened it. `step`: the last one of the ranks that go on. The
  /// lost rank may be stopped and still hold the lock: then this rank writes without it.
  /// @throws muster::Error(ErrorCode::deadline) when other ranks have ended the run later: this rank was
  /// stopped for so long that they went on without it. A rank that was cut off from the others may have
  /// written "lost", which does not end the run.
  void take_over(std::int64_t step);
  /// @throws muster::Error(ErrorCode::system)
  void write_status(const RunStatus& status) {
    muster::write_status(status_path_, status);
    has_begun_ = true;
  }
  /// Writes the status of a run that goes on, unless other ranks have ended it while this one was stopped.
  void update_status(const RunStatus& status) {
    if (!is_ended_after(status.step)) write_status(status);
  }
  /// Writes that `error` ended the run, unless other ranks have ended it. Without open() it writes only to
  /// --status, because status.json may belong to another run.
  void write_failure(const std::exception& error, RunStatus status) noexcept;

 private:
  bool is_ended_after(std::int64_t step) const;

  std::filesystem::path path_, status_path_;
  bool own_status_path_;    ///< from --status
  bool has_begun_ = false;  ///< the status file is that of this run
  std::optional<FolderLock> lock_;
};

}  // namespace muster
