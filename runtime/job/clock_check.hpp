// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "control_plane/control_plane.hpp"
#include "preflight/preflight.hpp"

namespace muster::bootstrap {

/// Every rank, before a barrier: the first rank of each host but rank 0's asks rank 0 for the time once, and
/// leaves the answer in the job's store only where it is suspicious. So it costs such a rank one round trip,
/// and rank 0 one short message a host.
/// @throws Error: deadline, or the failure of the job.
void publish_clock_offset(control::ControlPlane& plane, const std::vector<int>& host_of, std::chrono::milliseconds wait);

/// Rank 0, after the barrier.
std::vector<Finding> check_clock_skew(control::ControlPlane& plane, const std::vector<Hello>& roster,
                                    const std::vector<int>& host_of);

}  // namespace muster::bootstrap
