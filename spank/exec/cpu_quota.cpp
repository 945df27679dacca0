// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu_quota.hpp"

#include <algorithm>
#include <sstream>

#include "placement/topology/live/sysfs.hpp"

namespace muster::spank {

namespace {

using Quota = std::optional<double>;

Quota divide(const std::optional<long>& quota, const std::optional<long>& period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;  // -1 in v1: no limit
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// v2: "200000 100000", or "max 100000" without a limit.
Quota read_group(const placement::Sysfs& files, const std::string& folder) {
  if (const auto text = files.text(folder + "/cpu.max")) {
    const std::size_t space = std::min(text->find(' '), text->size());
    return divide(placement::to_number(text->substr(0, space)), placement::to_number(text->substr(space)));
  }
  return divide(files.number(folder + "/cpu.cfs_quota_us"), files.number(folder + "/cpu.cfs_period_us"));
}

// In a container without a cgroup namespace the path is the host's, and only the mount's root is the
// container's own group: groups that are not there have no limit.
Quota read_hierarchy(const placement::Sysfs& files, const std::string& mount, std::string path) {
  Quota lowest;
  // A path with /.. is outside of this cgroup namespace.
  if (!path.starts_with('/') || path.find("/..") != std::string::npos) path.clear();
  for (bool more = true; more;) {
    const auto quota = read_group(files, mount + path);
    if (quota) lowest = std::min(lowest.value_or(*quota), *quota);
    more = !path.empty();
    if (more) path.erase(path.rfind('/'));
  }
  return lowest;
}

bool has_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

std::optional<double> read_cpu_quota(const std::string& root) {
  const placement::Sysfs files(root);
  std::istringstream groups(files.text("/proc/self/cgroup").value_or(""));
  Quota lowest;
  // "0::/path" of v2, "4:cpu,cpuacct:/path" of v1; both where the machine mixes them
  for (std::string id, controllers, path; std::getline(groups, id, ':') &&
                                          std::getline(groups, controllers, ':') &&
                                          std::getline(groups, path);) {
    if (!controllers.empty() && !has_cpu(controllers)) continue;
    const std::string mount = "/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
    const auto quota = read_hierarchy(files, mount, path == "/" ? "" : path);
    if (quota) lowest = std::min(lowest.value_or(*quota), *quota);
  }
  return lowest;
}

}  // namespace muster::spank
