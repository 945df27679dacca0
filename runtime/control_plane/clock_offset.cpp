// SPDX-License-Identifier: Apache-2.0
#include "control_plane/clock_offset.hpp"

#include <algorithm>
#include <vector>

#include "control_plane/control_plane.hpp"

namespace muster::control {
namespace {

template <typename Clock>
std::int64_t nanoseconds_since_epoch() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

std::int64_t round_trip(const ClockSample& sample) { return sample.received.steady - sample.sent.steady; }

// RFC 5905, section 8: ((T2 - T1) + (T3 - T4)) / 2, where T2 and T3, rank 0's, are one reading.
std::int64_t offset(std::int64_t sent, std::int64_t rank0, std::int64_t received) {
  return rank0 - sent - (received - sent) / 2;
}

}  // namespace

ClockReading read_clocks() {
  return {nanoseconds_since_epoch<std::chrono::system_clock>(),
          nanoseconds_since_epoch<std::chrono::steady_clock>()};
}

HostClockOffset bound_offset(std::int64_t theirs, std::int64_t after, std::int64_t before) {
  auto const middle = after + (before - after) / 2;
  return {std::chrono::nanoseconds(theirs - middle), std::chrono::nanoseconds((before - after) / 2)};
}

ClockOffset estimate_offset(std::span<const ClockSample> samples) {
  if (samples.empty()) return {};
  auto const& [sent, rank0, received] = *std::min_element(
      samples.begin(), samples.end(),
      [](const ClockSample& a, const ClockSample& b) { return round_trip(a) < round_trip(b); });
  return {std::chrono::nanoseconds(offset(sent.system, rank0.system, received.system)),
          std::chrono::nanoseconds(offset(sent.steady, rank0.steady, received.steady)),
          std::chrono::nanoseconds(received.steady - sent.steady)};
}

ClockOffset measure_clock_offset(ControlPlane& plane, int samples, std::chrono::milliseconds wait) {
  if (plane.rank() == 0) return {};
  std::vector<ClockSample> measured;
  for (int i = 0; i < samples; ++i) {
    auto const sent = read_clocks();
    auto const rank0 = plane.read_rank0_clocks(wait);
    measured.push_back({sent, rank0, read_clocks()});
  }
  return estimate_offset(measured);
}

}  // namespace muster::control
