// SPDX-License-Identifier: Apache-2.0
#include "telemetry/telemetry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "log.hpp"
#include "roster/roster.hpp"
#include "telemetry/counters.hpp"

namespace muster::observe {
namespace {

using std::chrono::milliseconds;

constexpr const char* metrics_topic = "metrics";
// In a large job one line for each rank would flood the log.
constexpr std::size_t ranks_in_summary = 64;

}  // namespace

void serve_metrics(control::ControlPlane& plane, const Hello& self) {
  plane.register_handler(metrics_topic, [self](const control::Blob&) -> std::optional<control::Blob> {
    return encode(counters().read(self));
  });
}

RankMetrics request_metrics(control::ControlPlane& plane, const Hello& of, milliseconds wait) {
  auto const answer = plane.query_ranks({of.rank}, metrics_topic, {}, wait).front();
  if (answer) return decode_metrics(*answer);
  plane.check();
  throw Error(ErrorCode::deadline, fmt::format("metrics: {} did not answer within {}",
                                               bootstrap::describe_rank(of), format_duration(wait)));
}

std::unique_ptr<TelemetryFile> Telemetry::publish_request(bootstrap::JoinRecord& mine) {
  if (mine.hello.rank != 0) return nullptr;
  auto file = open_timeline_file();
  mine.timeline = file != nullptr;
  mine.gathers_telemetry = mine.timeline || log::info_enabled();
  return file;
}

Telemetry::Telemetry(const bootstrap::JoinRecord& request, const std::vector<Hello>& roster, int rank,
                     std::shared_ptr<control::ControlPlane> plane, std::unique_ptr<TelemetryFile> timeline)
    : roster_(roster), rank_(rank), plane_(std::move(plane)), gathers_(request.gathers_telemetry) {
  const Hello& self = roster_[static_cast<std::size_t>(rank_)];
  auto const ranks = static_cast<int>(roster_.size());
  if (gathers_) counters().measure_time();
  if (request.timeline) timeline_ = std::make_unique<Timeline>(self, ranks, plane_, std::move(timeline));
  metrics_ = MetricsFile::open(self, ranks);
}

void Telemetry::stop() {
  if (!timeline_) return;
  timeline_->mark_clock();
  timeline_->stop();
}

void Telemetry::gather(milliseconds wait) noexcept {
  Deadline const deadline(wait);
  if (timeline_) timeline_->write(deadline.remaining());
  try {
    if (rank_ == 0 && log::info_enabled()) summarize(deadline.remaining());
  } catch (const std::exception& error) {
    log::warn("summary: {}", error.what());
  }
}

void Telemetry::summarize(milliseconds wait) const {
  auto const count = std::min(roster_.size(), ranks_in_summary);
  std::vector<int> peers(count - 1);
  std::iota(peers.begin(), peers.end(), 1);
  std::vector<std::optional<control::Blob>> answers;
  if (plane_) answers = plane_->query_ranks(peers, metrics_topic, {}, wait);
  for (std::size_t r = 0; r < count; ++r) {
    auto const name = bootstrap::describe_rank(roster_[r]);
    if (r == 0) {
      log::info("{}: {}", name, describe_metrics(counters().read(roster_[r])));
    } else if (answers[r - 1]) {
      log::info("{}: {}", name, describe_metrics(decode_metrics(*answers[r - 1])));
    } else {
      log::info("{}: no answer", name);
    }
  }
  if (roster_.size() > count) log::info("and {} more ranks", roster_.size() - count);
}

void Telemetry::gather_after_failure() noexcept {
  if (timeline_) timeline_->write_after_failure();
}

}  // namespace muster::observe
