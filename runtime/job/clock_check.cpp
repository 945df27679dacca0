// SPDX-License-Identifier: Apache-2.0
#include "job/clock_check.hpp"

#include <algorithm>

#include "log.hpp"

namespace muster::bootstrap {

void report_host_clock(control::ControlPlane& plane, const std::vector<int>& host_of) {
  auto const mine = host_of[static_cast<std::size_t>(plane.rank())];
  bool const first = std::find(host_of.begin(), host_of.end(), mine) - host_of.begin() == plane.rank();
  if (first && plane.rank() != 0) plane.report_clock();
}

std::vector<Finding> check_clock_skew(const control::ControlPlane& plane, const std::vector<Hello>& roster) {
  std::vector<HostClock> clocks{{0, {}, {}}};
  for (const auto& [rank, offset] : plane.host_clocks()) {
    log::debug("join: the clock of rank {}'s host is {:+.3f} ms ahead, give or take {:.3f} ms", rank,
               static_cast<double>(offset.ahead.count()) / 1e6,
               static_cast<double>(offset.uncertainty.count()) / 1e6);
    clocks.push_back({rank, offset.ahead, offset.uncertainty});
  }
  return check_clocks(roster, clocks);
}

}  // namespace muster::bootstrap
