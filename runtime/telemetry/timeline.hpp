// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "control_plane/control_plane.hpp"
#include "replace_file.hpp"
#include "telemetry/chrome_trace.hpp"

namespace muster::observe {

/// MUSTER_TIMELINE's file, open for writing; null when the variable is not set, or, which is said in one
/// line, the file cannot be written: the job goes on without it.
std::unique_ptr<ReplaceFile> open_timeline_file();

/// One trace of all ranks. Each keeps its events in its own memory; at the end rank 0 asks for them piece by
/// piece and writes the file. Not thread-safe.
class Timeline {
 public:
  /// Begins to record. `plane` is null in a world of one; `file` is rank 0's.
  Timeline(const Hello& self, int ranks, std::shared_ptr<control::ControlPlane> plane,
           std::unique_ptr<ReplaceFile> file);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Compares this rank's clock with rank 0's once more. What goes wrong in that is left to others to find.
  void mark_clock() noexcept;
  /// This rank's part is complete.
  void stop();
  /// On rank 0, when every rank has stopped: writes the file, with what has come before the deadline, and
  /// says in one line whose part is not in it. Elsewhere nothing.
  void write(std::chrono::milliseconds wait) noexcept;
  /// On rank 0, when the job has failed: the same for what the ranks have now, under a short deadline.
  void write_what_there_is() noexcept;

 private:
  struct Part;
  void gather(std::chrono::milliseconds wait, std::chrono::milliseconds patience, bool unasked);

  std::shared_ptr<control::ControlPlane> plane_;
  std::unique_ptr<ReplaceFile> file_;
  std::shared_ptr<Part> part_;  // the control plane's thread may be at it
  int ranks_;
};

}  // namespace muster::observe
