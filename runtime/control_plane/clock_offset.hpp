// SPDX-License-Identifier: Apache-2.0
// By how much this rank's clocks differ from rank 0's.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

namespace muster::control {

class ControlPlane;

/// One host's clocks at one moment, in nanoseconds: CLOCK_REALTIME since 1970 and CLOCK_MONOTONIC since some
/// moment of that host's own (both are those of std::chrono::system_clock and steady_clock here).
struct ClockReading {
  std::int64_t system = 0;
  std::int64_t steady = 0;
};

ClockReading read_clocks();

/// One question to rank 0: this rank's clocks before it and after the answer, rank 0's in between.
struct ClockSample {
  ClockReading sent;
  ClockReading of_rank_0;
  ClockReading received;
};

/// Added to a reading of this rank's clock this gives rank 0's. The truth is at most round_trip / 2 away,
/// plus what the clocks drift from then on (oscillators differ by up to 1e-4, that is 0.1 ms in a second,
/// where nothing disciplines them; the system clocks of hosts under NTP by far less).
struct ClockOffset {
  std::chrono::nanoseconds system{0};
  std::chrono::nanoseconds steady{0};
  std::chrono::nanoseconds round_trip{0};
};

/// From the sample that took the shortest time, which delays on the way falsify least; within it the question
/// and the answer count as equally long on their way (NTP's clock filter and on-wire protocol, RFC 5905,
/// sections 10 and 8). Zero without samples. Pure.
ClockOffset estimate_offset(std::span<const ClockSample> samples);

/// Asks rank 0 `samples` times, one after the other; zero on rank 0 itself, without a question. Not
/// collective: rank 0's control thread answers whatever its program does. The wait bounds each question.
/// @throws Error: deadline, or the failure of the job.
ClockOffset measure_clock_offset(ControlPlane& plane, int samples = 8,
                                 std::chrono::milliseconds wait = std::chrono::seconds(10));

}  // namespace muster::control
