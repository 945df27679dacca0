// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace muster {

struct FreeMemory {
  std::uint64_t bytes = 0;
  std::string where;  ///< what sets the bound, e.g. "available on this host" or "left in cgroup /slurm/job_7"
};

/// What this process and its neighbours can ask for together: the least of MemAvailable (proc(5)) and of what
/// is left of the memory limits of its cgroup and those above it, of version 1 or 2, where page cache counts
/// as free. `root`: where /proc and /sys are, for tests. Without any figure, all there is.
FreeMemory free_memory(const std::filesystem::path& root = "/");

/// The most memory that this process had at a time (getrusage(2)'s ru_maxrss); its mapped files' pages count.
std::uint64_t peak_resident_bytes();

}  // namespace muster
