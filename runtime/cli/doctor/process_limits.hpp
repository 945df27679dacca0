// SPDX-License-Identifier: Apache-2.0
// Whether ranks may lock and share as much memory as NCCL and RDMA adapters need.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "doctor/check_table.hpp"
#include "muster/job.hpp"

namespace muster::cli::doctor {

inline constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// Limits of one rank, in bytes.
struct ProcessLimits {
  std::uint64_t lockable = unlimited;  ///< RLIMIT_MEMLOCK, the soft limit
  std::uint64_t shareable = 0;         ///< free in /dev/shm; 0 also when it does not exist
};

/// With less, NCCL may fail to connect the ranks of a host through shared memory. The value is what its user
/// guide recommends for containers (Troubleshooting, Docker: --shm-size=1g --ulimit memlock=-1).
inline constexpr std::uint64_t min_shareable = std::uint64_t{1} << 30;

/// The features that need limits.
struct LimitRequirements {
  bool adapters = false;     ///< a host has an RDMA adapter
  bool shared_nccl = false;  ///< NCCL is used, and a host has several ranks
};

ProcessLimits read_limits();

/// The rows "locked memory" and "/dev/shm"; `limits` by rank. Pure.
std::vector<Row> judge_limits(const std::vector<Hello>& roster, const std::vector<ProcessLimits>& limits,
                              const LimitRequirements& requirements);

}  // namespace muster::cli::doctor
