// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "control_plane/control_plane.hpp"
#include "preflight/preflight.hpp"

namespace muster::bootstrap {

/// On every rank, before a barrier. The first rank of each host except rank 0's host requests rank 0's time
/// once and publishes its offset in the job's store only if it is suspicious. This costs such a rank one
/// round trip, and rank 0 one short message a host.
/// @throws Error: deadline, or the failure of the job.
void publish_clock_offset(control::ControlPlane& plane, const std::vector<int>& host_of,
                          std::chrono::milliseconds wait);

/// On rank 0, after the barrier.
std::vector<Finding> check_clock_skew(control::ControlPlane& plane, const std::vector<Hello>& roster,
                                      const std::vector<int>& host_of);

}  // namespace muster::bootstrap
