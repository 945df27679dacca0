// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "control_plane/control_plane.hpp"
#include "telemetry/chrome_trace.hpp"
#include "telemetry/telemetry_file.hpp"

namespace muster::observe {

/// MUSTER_TIMELINE's file, open for writing. Null when the variable is not set, or when the file cannot be
/// written: it then logs one warning, and the job goes on without the file.
std::unique_ptr<TelemetryFile> open_timeline_file();

/// One trace of all ranks. Each rank keeps its events in its own memory; at the end rank 0 requests them
/// piece by piece and writes the file. Not thread-safe.
class Timeline {
 public:
  /// Starts recording. `plane` is null in a world of one; `file` is rank 0's.
  Timeline(const Hello& self, int ranks, std::shared_ptr<control::ControlPlane> plane,
           std::unique_ptr<TelemetryFile> file);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Measures this rank's clock offset to rank 0 once more. Errors are only logged for debugging.
  void mark_clock() noexcept;
  /// Completes this rank's part.
  void stop();
  /// On rank 0, after every rank has stopped: writes the file with the parts that arrive within `wait`, and
  /// logs one warning with the missing ranks. Does nothing on other ranks.
  void write(std::chrono::milliseconds wait) noexcept;
  /// On rank 0, after the job has failed: the same for the parts as they are, with a short deadline.
  void write_after_failure() noexcept;

 private:
  struct Part;
  void gather(std::chrono::milliseconds wait, std::chrono::milliseconds reply_timeout, bool after_failure);

  std::shared_ptr<control::ControlPlane> plane_;
  std::unique_ptr<TelemetryFile> file_;
  std::shared_ptr<Part> part_;  // the control plane's thread may use it
  int ranks_;
};

}  // namespace muster::observe
