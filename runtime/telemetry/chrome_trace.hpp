// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control_plane/clock_offset.hpp"
#include "muster/job.hpp"
#include "telemetry/event_log.hpp"

namespace muster::observe {

/// This rank's clock offset to rank 0, and the time on this rank's steady clock when it was measured.
struct ClockMark {
  std::int64_t at = 0;
  control::ClockOffset offset;
};

/// Converts this rank's steady clock to rank 0's. Between two marks the offset is interpolated linearly,
/// since the clocks' rates differ by a constant to first order; outside the marks it is constant. If two
/// marks are less than 10 seconds apart, their uncertainty outweighs the drift, and only the one with the
/// shorter round trip counts. The result never decreases.
class ClockMap {
 public:
  ClockMap() = default;
  explicit ClockMap(const std::vector<ClockMark>& marks);

  std::int64_t to_rank_0(std::int64_t at) const;

 private:
  ClockMark first_;
  double drift_ = 0;  // nanoseconds per nanosecond
  std::int64_t span_ = 0;
};

/// One rank's part of the trace in pieces of text: JSON objects of Chrome's trace event format ("Trace Event
/// Format", Google), one a line, separated by commas. Reads a frozen log.
class TraceText {
 public:
  /// `self`: the rank's hello.
  TraceText(const EventLog& log, const Hello& self, const std::vector<ClockMark>& marks);

  /// The next piece, at most a little longer than `bytes`; empty after the last one.
  std::string next(std::size_t bytes);

 private:
  void describe(std::string& text) const;
  void describe(std::string& text, const EventLog::Thread& thread) const;
  void write(std::string& text, const Event& event, int thread, std::int64_t end, bool open) const;

  const EventLog& log_;
  Hello self_;
  std::vector<ClockMark> marks_;
  ClockMap clock_;
  std::int64_t frozen_at_;
  std::vector<EventLog::Thread> threads_;
  bool described_ = false;
  std::size_t thread_ = 0;
  std::size_t event_ = 0;
};

}  // namespace muster::observe
