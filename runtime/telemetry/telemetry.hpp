// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "muster/metrics.hpp"
#include "roster/join_record.hpp"
#include "telemetry/metrics_file.hpp"
#include "telemetry/timeline.hpp"

namespace muster::observe {

/// Registers a handler with which `plane` answers other ranks' requests for this rank's metrics.
void serve_metrics(control::ControlPlane& plane, const Hello& self);
/// Requests another rank's metrics; it answers whatever its program does.
/// @throws Error(ErrorCode::deadline) when it does not answer in time; the job goes on.
RankMetrics request_metrics(control::ControlPlane& plane, const Hello& of, std::chrono::milliseconds wait);

/// A job's optional output about itself: timeline, metrics file, summary. Not thread-safe.
class Telemetry {
 public:
  /// On rank 0 writes into its record what it will gather, and opens the timeline file. On other ranks does
  /// nothing.
  static std::unique_ptr<TelemetryFile> publish_request(bootstrap::JoinRecord& mine);

  /// `request`: rank 0's record. `plane` is null in a world of one. `timeline`: rank 0's file.
  Telemetry(const bootstrap::JoinRecord& request, const std::vector<Hello>& roster, int rank,
            std::shared_ptr<control::ControlPlane> plane, std::unique_ptr<TelemetryFile> timeline);

  /// True when rank 0 gathers at the end. All ranks then need a barrier between stop() and gather().
  bool gathers() const { return gathers_; }
  void stop();
  /// On rank 0 takes at most `wait`; does nothing on other ranks.
  void gather(std::chrono::milliseconds wait) noexcept;
  /// Writes what can still be gathered within half a second.
  void gather_after_failure() noexcept;

 private:
  void summarize(std::chrono::milliseconds wait) const;

  const std::vector<Hello>& roster_;
  int rank_;
  std::shared_ptr<control::ControlPlane> plane_;
  bool gathers_;
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<MetricsFile> metrics_;
};

}  // namespace muster::observe
