// SPDX-License-Identifier: Apache-2.0
#include "job/clock_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "control_plane/clock_offset.hpp"
#include "log.hpp"

namespace muster::bootstrap {
namespace {

using control::Blob;
using std::chrono::nanoseconds;

const char* const skew_suspected_key = "preflight/clocks";

std::string clock_key(int rank) { return fmt::format("preflight/clock/{}", rank); }

std::vector<int> first_ranks(const std::vector<int>& host_of) {
  std::vector<int> first;
  std::set<int> seen;
  for (int rank = 0; rank < static_cast<int>(host_of.size()); ++rank)
    if (seen.insert(host_of[static_cast<std::size_t>(rank)]).second) first.push_back(rank);
  return first;
}

Blob encode_clock(const HostClock& clock) {
  std::array<std::int64_t, 2> const numbers{clock.ahead.count(), clock.uncertainty.count()};
  Blob blob(sizeof numbers);
  std::memcpy(blob.data(), numbers.data(), blob.size());
  return blob;
}

HostClock decode_clock(int rank, const std::optional<Blob>& blob) {
  std::array<std::int64_t, 2> numbers{};
  if (blob && blob->size() == sizeof numbers) std::memcpy(numbers.data(), blob->data(), sizeof numbers);
  return {rank, nanoseconds(numbers[0]), nanoseconds(numbers[1])};
}

}  // namespace

void publish_clock_offset(control::ControlPlane& plane, const std::vector<int>& host_of,
                          std::chrono::milliseconds wait) {
  auto const mine = host_of[static_cast<std::size_t>(plane.rank())];
  bool const first = std::find(host_of.begin(), host_of.end(), mine) - host_of.begin() == plane.rank();
  if (!first || plane.rank() == 0) return;
  auto offset = control::measure_clock_offset(plane, 1, wait);
  // A long round trip makes the offset uncertain: measure it again, three times.
  if (offset.round_trip > max_clock_skew / 4) offset = control::measure_clock_offset(plane, 3, wait);
  HostClock const clock{plane.rank(), -offset.system, offset.round_trip / 2};
  log::debug("join: clock {:+.3f} ms from rank 0's, round trip {:.3f} ms",
             static_cast<double>(clock.ahead.count()) / 1e6,
             static_cast<double>(offset.round_trip.count()) / 1e6);
  // Half of the limit: two hosts can each be within the limit of rank 0 and still differ by more than it.
  if (std::chrono::abs(clock.ahead) - clock.uncertainty <= max_clock_skew / 2) return;
  plane.put(clock_key(plane.rank()), encode_clock(clock));
  plane.put(skew_suspected_key, {});
}

std::vector<Finding> check_clock_skew(control::ControlPlane& plane, const std::vector<Hello>& roster,
                                      const std::vector<int>& host_of) {
  std::chrono::milliseconds const at_once{0};
  if (!plane.get(skew_suspected_key, at_once)) return {};
  std::vector<HostClock> clocks;
  for (int const rank : first_ranks(host_of))
    clocks.push_back(decode_clock(rank, rank == 0 ? std::nullopt : plane.get(clock_key(rank), at_once)));
  return check_clocks(roster, clocks);
}

}  // namespace muster::bootstrap
