// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "muster/metrics.hpp"
#include "roster/join_record.hpp"
#include "telemetry/metrics_file.hpp"
#include "telemetry/timeline.hpp"

namespace muster::observe {

/// From here on `plane` answers when other ranks ask for this one's metrics.
void serve_metrics(control::ControlPlane& plane, const Hello& self);
/// Another rank's, whatever its program does.
/// @throws Error(ErrorCode::deadline) when it does not answer in time; the job goes on.
RankMetrics ask_for_metrics(control::ControlPlane& plane, const Hello& of, std::chrono::milliseconds wait);

/// What a job tells about itself when it is asked to: timeline, metrics file, summary. Not thread-safe.
class Telemetry {
 public:
  /// Says in rank 0's record what it will gather. On other ranks nothing.
  static std::unique_ptr<ReplaceFile> announce(bootstrap::JoinRecord& mine);

  /// `wishes`: rank 0's record. `plane` is null in a world of one; `timeline`: rank 0's file.
  Telemetry(const bootstrap::JoinRecord& wishes, const std::vector<Hello>& roster, int rank,
        std::shared_ptr<control::ControlPlane> plane, std::unique_ptr<ReplaceFile> timeline);

  /// Rank 0 gathers at the end: all ranks meet after stop() and before gather().
  bool gathers() const { return gathers_; }
  void stop();
  /// On rank 0 takes `wait` at most, elsewhere nothing.
  void gather(std::chrono::milliseconds wait) noexcept;
  /// As far as it still can be had, in half a second.
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
