// SPDX-License-Identifier: Apache-2.0
#include "telemetry/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "failure/background_errors.hpp"
#include "log.hpp"

namespace muster::observe {
namespace {

using std::chrono::milliseconds;

constexpr const char* timeline_topic = "timeline";
// Size of one message, and number of ranks with a pending request: rank 0 never holds more than their
// product.
constexpr std::size_t piece_bytes = 256u << 10;
constexpr std::size_t ranks_at_once = 16;
// Time limit for one rank's piece: at the end of a job, and after a failure, when the survivors end soon.
constexpr milliseconds reply_timeout_at_leave{10'000};
constexpr milliseconds reply_timeout_after_failure{100};
constexpr milliseconds time_after_failure{400};

control::Blob to_blob(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

std::unique_ptr<TelemetryFile> open_timeline_file() {
  const char* const path = std::getenv("MUSTER_TIMELINE");
  if (path == nullptr || *path == '\0') return nullptr;
  try {
    return std::make_unique<TelemetryFile>(path);
  } catch (const Error& error) {
    log::warn("MUSTER_TIMELINE: {}; the job goes on without a timeline", error.what());
    return nullptr;
  }
}

// State that the control plane's thread and the program's thread share.
struct Timeline::Part {
  explicit Part(const Hello& hello) : self(hello) {}

  std::mutex mutex;
  Hello self;
  std::vector<ClockMark> marks;
  std::optional<TraceText> text;

  void stop() {
    std::lock_guard const lock(mutex);
    if (text) return;
    event_log().freeze();
    text.emplace(event_log(), self, marks);
  }
  std::optional<std::string> next() {
    std::lock_guard const lock(mutex);
    if (!text) return std::nullopt;
    return text->next(piece_bytes);
  }
};

Timeline::Timeline(const Hello& self, int ranks, std::shared_ptr<control::ControlPlane> plane,
                   std::unique_ptr<TelemetryFile> file)
    : plane_(std::move(plane)), file_(std::move(file)), part_(std::make_shared<Part>(self)), ranks_(ranks) {
  event_log().start();
  if (!plane_) return;
  mark_clock();
  // A request that is not empty is sent after a failure, when ranks do not call stop() themselves.
  plane_->register_handler(timeline_topic,
                           [part = part_](const control::Blob& request) -> std::optional<control::Blob> {
                             if (!request.empty()) part->stop();
                             auto const text = part->next();
                             if (!text) return std::nullopt;
                             return to_blob(*text);
                           });
}

Timeline::~Timeline() {
  if (plane_) plane_->register_handler(timeline_topic, {});
}

void Timeline::mark_clock() noexcept {
  if (!plane_ || plane_->rank() == 0 || plane_->failed()) return;
  control::BackgroundErrors const dropped;
  try {
    auto const offset = control::measure_clock_offset(*plane_);
    std::lock_guard const lock(part_->mutex);
    part_->marks.push_back({now(), offset});
  } catch (const std::exception& error) {
    log::debug("timeline: no clock offset: {}", error.what());
  }
}

void Timeline::stop() { part_->stop(); }

void Timeline::write(milliseconds wait) noexcept {
  try {
    gather(wait, reply_timeout_at_leave, false);
  } catch (const std::exception& error) {
    log::warn("MUSTER_TIMELINE: {}", error.what());
  }
}

void Timeline::write_after_failure() noexcept {
  try {
    gather(time_after_failure, reply_timeout_after_failure, true);
  } catch (const std::exception& error) {
    log::warn("MUSTER_TIMELINE: {}", error.what());
  }
}

void Timeline::gather(milliseconds wait, milliseconds reply_timeout, bool after_failure) {
  if (!file_) return;
  auto const file = std::move(file_);
  Deadline const deadline(wait);
  part_->stop();
  file->write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  for (auto text = part_->next(); !text->empty(); text = part_->next()) file->write(*text);
  control::Blob const request(after_failure ? 1 : 0);
  std::vector<int> pending;
  std::string missing;
  int missing_count = 0;
  for (int next = 1; next < ranks_ || !pending.empty();) {
    while (pending.size() < ranks_at_once && next < ranks_) pending.push_back(next++);
    auto const answers =
        plane_->query_ranks(pending, timeline_topic, request, std::min(reply_timeout, deadline.remaining()));
    std::vector<int> more;
    for (std::size_t i = 0; i < pending.size(); ++i) {
      if (!answers[i]) {
        if (missing_count++ < 8) missing += fmt::format("{}{}", missing.empty() ? "" : ",", pending[i]);
      } else if (!answers[i]->empty()) {
        file->write({reinterpret_cast<const char*>(answers[i]->data()), answers[i]->size()});
        more.push_back(pending[i]);
      }
    }
    pending = std::move(more);
  }
  file->write(
      fmt::format("{{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"muster_trace\",\"args\":{{\"ranks\":{},"
                  "\"lacking\":{}}}}}\n]}}\n",
                  ranks_, missing_count));
  file->commit();
  if (missing_count > 0 && !after_failure) {
    log::warn("MUSTER_TIMELINE: the parts of {} of {} ranks did not arrive in time (rank {}{})",
              missing_count, ranks_, missing, missing_count > 8 ? ",…" : "");
  }
}

}  // namespace muster::observe
