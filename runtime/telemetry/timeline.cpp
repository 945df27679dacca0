// SPDX-License-Identifier: Apache-2.0
#include "telemetry/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "log.hpp"

namespace muster::observe {
namespace {

using std::chrono::milliseconds;

constexpr const char* timeline_topic = "timeline";
// What one message carries, and how many ranks are asked at the same time: rank 0 never holds more than their
// product.
constexpr std::size_t piece_bytes = 256u << 10;
constexpr std::size_t ranks_at_once = 16;
// How long one rank may take for a piece, at the end of a job and after a failure, where the survivors end
// soon.
constexpr milliseconds patience_at_leave{10'000};
constexpr milliseconds patience_after_failure{100};
constexpr milliseconds time_after_failure{400};

control::Blob blob_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

std::unique_ptr<ReplaceFile> open_timeline_file() {
  const char* const path = std::getenv("MUSTER_TIMELINE");
  if (path == nullptr || *path == '\0') return nullptr;
  try {
    return std::make_unique<ReplaceFile>(path);
  } catch (const Error& error) {
    log::warn("MUSTER_TIMELINE: {}; the job goes on without a timeline", error.what());
    return nullptr;
  }
}

// What the control plane's thread and the program's share.
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
                   std::unique_ptr<ReplaceFile> file)
    : plane_(std::move(plane)), file_(std::move(file)), part_(std::make_shared<Part>(self)), ranks_(ranks) {
  event_log().start();
  if (!plane_) return;
  mark_clock();
  // A question that is not empty comes after a failure, when nobody stops by himself.
  plane_->answer(timeline_topic,
                 [part = part_](const control::Blob& question) -> std::optional<control::Blob> {
                   if (!question.empty()) part->stop();
                   auto const text = part->next();
                   if (!text) return std::nullopt;
                   return blob_of(*text);
                 });
}

Timeline::~Timeline() {
  if (plane_) plane_->answer(timeline_topic, {});
}

void Timeline::mark_clock() noexcept {
  if (!plane_ || plane_->rank() == 0 || plane_->failed()) return;
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
    gather(wait, patience_at_leave, false);
  } catch (const std::exception& error) {
    log::warn("MUSTER_TIMELINE: {}", error.what());
  }
}

void Timeline::write_what_there_is() noexcept {
  try {
    gather(time_after_failure, patience_after_failure, true);
  } catch (const std::exception& error) {
    log::warn("MUSTER_TIMELINE: {}", error.what());
  }
}

void Timeline::gather(milliseconds wait, milliseconds patience, bool unasked) {
  if (!file_) return;
  auto const file = std::move(file_);
  Deadline const deadline(wait);
  part_->stop();
  file->write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  for (auto text = part_->next(); !text->empty(); text = part_->next()) file->write(*text);
  control::Blob const question(unasked ? 1 : 0);
  std::vector<int> asked;
  std::string missing;
  int lacking = 0;
  for (int next = 1; next < ranks_ || !asked.empty();) {
    while (asked.size() < ranks_at_once && next < ranks_) asked.push_back(next++);
    auto const answers =
        plane_->ask_ranks(asked, timeline_topic, question, std::min(patience, deadline.remaining()));
    std::vector<int> more;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (!answers[i]) {
        if (lacking++ < 8) missing += fmt::format("{}{}", missing.empty() ? "" : ",", asked[i]);
      } else if (!answers[i]->empty()) {
        file->write({reinterpret_cast<const char*>(answers[i]->data()), answers[i]->size()});
        more.push_back(asked[i]);
      }
    }
    asked = std::move(more);
  }
  file->write(
      fmt::format("{{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"muster_trace\",\"args\":{{\"ranks\":{},"
                  "\"lacking\":{}}}}}\n]}}\n",
                  ranks_, lacking));
  file->commit();
  if (lacking > 0 && !unasked) {
    log::warn("MUSTER_TIMELINE: the part of {} of {} ranks did not come in time (rank {}{})", lacking, ranks_,
              missing, lacking > 8 ? ",…" : "");
  }
}

}  // namespace muster::observe
