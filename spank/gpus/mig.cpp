// SPDX-License-Identifier: Apache-2.0
#include "gpus/mig.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "placement/topology/sysfs.hpp"

namespace muster::spank {

namespace {

using placement::Sysfs;
using Numbered = std::vector<std::pair<int, std::string>>;

// The entries of a folder with a name of this prefix and a number.
Numbered numbered_entries(const Sysfs& sysfs, const std::string& folder, std::string_view prefix) {
  Numbered entries;
  for (const std::string& name : sysfs.names(folder)) {
    if (!std::string_view(name).starts_with(prefix)) continue;
    int number = 0;
    const char* last = name.data() + name.size();
    const auto [stop, failed] = std::from_chars(name.data() + prefix.size(), last, number);
    if (failed == std::errc() && stop == last && number >= 0)
      entries.emplace_back(number, folder + "/" + name);
  }
  return entries;
}

std::optional<int> read_capability(const Sysfs& sysfs, const std::string& folder) {
  std::istringstream file(sysfs.text(folder + "/access").value_or(""));
  for (std::string key; file >> key;) {
    int minor = -1;
    if (key == "DeviceFileMinor:" && file >> minor && minor >= 0) return minor;
  }
  return std::nullopt;
}

}  // namespace

std::string MigInstance::label() const {
  return "gpu" + std::to_string(gpu_minor) + "/gi" + std::to_string(gpu_instance) + "/ci" +
         std::to_string(compute_instance);
}

std::vector<MigInstance> read_mig_instances(const std::string& root) {
  const Sysfs sysfs(root);
  std::vector<MigInstance> instances;
  for (const auto& [gpu, gpu_folder] : numbered_entries(sysfs, "/proc/driver/nvidia/capabilities", "gpu"))
    for (const auto& [gi, gi_folder] : numbered_entries(sysfs, gpu_folder + "/mig", "gi"))
      for (const auto& [ci, ci_folder] : numbered_entries(sysfs, gi_folder, "ci")) {
        const auto outer = read_capability(sysfs, gi_folder);
        const auto inner = read_capability(sysfs, ci_folder);
        if (outer && inner) instances.push_back({gpu, gi, ci, {*outer, *inner}});
      }
  std::sort(instances.begin(), instances.end(), [](const MigInstance& a, const MigInstance& b) {
    return std::tie(a.gpu_minor, a.gpu_instance, a.compute_instance) <
           std::tie(b.gpu_minor, b.gpu_instance, b.compute_instance);
  });
  return instances;
}

bool can_open(const MigInstance& instance, const std::string& root) {
  const auto opens = [&](const std::string& file, int how) {
    return access((root + "/dev/" + file).c_str(), how) == 0;
  };
  return opens("nvidia" + std::to_string(instance.gpu_minor), R_OK | W_OK) &&
         std::all_of(instance.capabilities.begin(), instance.capabilities.end(), [&](int minor) {
           return opens("nvidia-caps/nvidia-cap" + std::to_string(minor), R_OK);
         });
}

}  // namespace muster::spank
