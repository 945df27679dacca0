// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace muster::spank {

/// How many CPUs' time the control groups of this process may use, as the kernel limits it: 2.5 for 250 ms in
/// each 100 ms. The lowest limit of its group and of those around it counts (cgroup v2's cpu.max, v1's
/// cpu.cfs_quota_us). Nothing without a limit, or when it cannot be read. root: of /proc and /sys.
std::optional<double> read_cpu_quota(const std::string& root);

}  // namespace muster::spank
