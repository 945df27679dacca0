// SPDX-License-Identifier: Apache-2.0
// Offset of this rank's clocks from rank 0's.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

namespace muster::control {

class ControlPlane;

/// One host's clocks at one moment, in nanoseconds: CLOCK_REALTIME since 1970 (std::chrono::system_clock) and
/// CLOCK_MONOTONIC since a moment of that host's own (steady_clock).
struct ClockReading {
  std::int64_t system = 0;
  std::int64_t steady = 0;
};

ClockReading read_clocks();

/// One request to rank 0: this rank's clocks before the request and after the response, rank 0's in between.
struct ClockSample {
  ClockReading sent;
  ClockReading rank0;
  ClockReading received;
};

/// This rank's reading plus the offset is rank 0's reading. The error is at most round_trip / 2, plus the
/// drift since the measurement: up to 1e-4 (0.1 ms a second) for free-running oscillators, far less under
/// NTP.
struct ClockOffset {
  std::chrono::nanoseconds system{0};
  std::chrono::nanoseconds steady{0};
  std::chrono::nanoseconds round_trip{0};
};

/// How far a host's CLOCK_REALTIME is ahead of rank 0's. `uncertainty` bounds the error.
struct HostClockOffset {
  std::chrono::nanoseconds ahead{0};
  std::chrono::nanoseconds uncertainty{0};
};

/// From a host's clock `theirs`, which was read between two moments of rank 0's clock. All in nanoseconds.
/// Pure.
HostClockOffset bound_offset(std::int64_t theirs, std::int64_t after, std::int64_t before);

/// Uses the sample with the shortest round trip, which delays distort least, and assumes that request and
/// response took equally long (NTP's clock filter and on-wire protocol, RFC 5905, sections 10 and 8). Zero
/// without samples. Pure.
ClockOffset estimate_offset(std::span<const ClockSample> samples);

/// Sends rank 0 `samples` requests, one after the other. Zero on rank 0 itself, without a request. Not
/// collective: rank 0's control thread responds whatever its program does. `wait` bounds each request.
/// @throws Error: deadline, or the failure of the job.
ClockOffset measure_clock_offset(ControlPlane& plane, int samples = 8,
                                 std::chrono::milliseconds wait = std::chrono::seconds(10));

}  // namespace muster::control
