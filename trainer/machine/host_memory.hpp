// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace muster {

struct FreeMemory {
  std::uint64_t bytes = 0;
  std::string where;  ///< which limit applies, e.g. "available on this host" or "left in cgroup /slurm/job_7"
};

/// Memory that the processes of this host or cgroup can still allocate together: the minimum of MemAvailable
/// (proc(5)) and of what is left below the memory limits of this process's cgroup and its parents, of version
/// 1 or 2. Page cache counts as free. `root`: directory that contains /proc and /sys, for tests. Without any
/// figure, the result is unlimited.
FreeMemory free_memory(const std::filesystem::path& root = "/");

struct AddressLimit {
  std::uint64_t bytes = 0, used = 0;
};
/// The limit of this process's address space (RLIMIT_AS), if there is one, and what is in use.
std::optional<AddressLimit> find_address_space_limit();

/// Peak resident memory of this process (getrusage(2)'s ru_maxrss), including pages of mapped files.
std::uint64_t peak_resident_bytes();

}  // namespace muster
