// SPDX-License-Identifier: Apache-2.0
#include "machine/host_memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

/// File names of cgroup versions 1 and 2.
struct CgroupFiles {
  const char *mount, *limit, *usage, *file_prefix;
};
constexpr CgroupFiles version1{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_"};
constexpr CgroupFiles version2{"sys/fs/cgroup", "memory.max", "memory.current", ""};

/// The first word of a file as an integer; nothing when it is not one, e.g. "max".
std::optional<std::uint64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The number after `name` in a file of lines "name number"; 0 when there is none.
std::uint64_t read_named_number(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> word >> number && word == name) return number;
  }
  return 0;
}

/// Bytes left below one cgroup's limit; nothing when the cgroup has none.
std::optional<std::uint64_t> read_remaining_bytes(const fs::path& folder, const CgroupFiles& files) {
  const auto limit = read_number(folder / files.limit), used = read_number(folder / files.usage);
  if (!limit || !used) return std::nullopt;
  const std::string prefix = files.file_prefix;
  std::uint64_t cache = 0;
  for (const char* name : {"inactive_file", "active_file"})
    cache += read_named_number(folder / "memory.stat", prefix + name);
  const std::uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

/// Applies the limits of `group` and its parents up to the root. A cgroup that is not mounted here is
/// skipped.
void apply_cgroup_limits(const fs::path& root, const CgroupFiles& files, fs::path group, FreeMemory& least) {
  for (;; group = group.parent_path()) {
    const auto left = read_remaining_bytes(root / files.mount / group.relative_path(), files);
    if (left && *left < least.bytes) least = {*left, fmt::format("left in cgroup {}", group.string())};
    if (!group.has_relative_path()) return;
  }
}

}  // namespace

FreeMemory free_memory(const fs::path& root) {
  FreeMemory least{no_limit, "not known"};
  if (const std::uint64_t kib = read_named_number(root / "proc/meminfo", "MemAvailable:"); kib > 0)
    least = {kib * 1024, "available on this host"};
  std::ifstream groups(root / "proc/self/cgroup");
  // Each line is number:controllers:/path. Version 2 has number 0 and no controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const fs::path group = fs::path(line.substr(second + 1)).lexically_normal();
    if (controllers == ",,") apply_cgroup_limits(root, version2, group, least);
    if (controllers.find(",memory,") != std::string::npos) apply_cgroup_limits(root, version1, group, least);
  }
  return least;
}

std::optional<AddressLimit> find_address_space_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const auto pages = read_number("/proc/self/statm");
  if (!pages) return std::nullopt;
  return AddressLimit{limit.rlim_cur, *pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))};
}

std::uint64_t peak_resident_bytes() {
  struct rusage usage {};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<std::uint64_t>(usage.ru_maxrss) * 1024 : 0;
}

}  // namespace muster
