// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "control_plane/control_plane.hpp"
#include "preflight/preflight.hpp"

namespace muster::bootstrap {

/// On every rank, before a barrier. The first rank of each host except rank 0's host sends rank 0 its clock:
/// one short message a host, and no wait.
void report_host_clock(control::ControlPlane& plane, const std::vector<int>& host_of);

/// On rank 0, after the barrier.
std::vector<Finding> check_clock_skew(const control::ControlPlane& plane, const std::vector<Hello>& roster);

}  // namespace muster::bootstrap
