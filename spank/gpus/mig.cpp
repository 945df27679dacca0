// SPDX-License-Identifier: Apache-2.0
#include "gpus/mig.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

#include "placement/topology/live/sysfs.hpp"

namespace muster::spank {

namespace {

using placement::Sysfs;

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
  const auto each = [&](const std::string& folder, const std::string& prefix, const auto& use) {
    for (const int number : sysfs.numbers(folder, prefix).to_vector())
      use(number, folder + "/" + prefix + std::to_string(number));
  };
  each("/proc/driver/nvidia/capabilities", "gpu", [&](int gpu, const std::string& gpu_folder) {
    each(gpu_folder + "/mig", "gi", [&](int gi, const std::string& gi_folder) {
      each(gi_folder, "ci", [&](int ci, const std::string& ci_folder) {
        const auto outer = read_capability(sysfs, gi_folder);
        const auto inner = read_capability(sysfs, ci_folder);
        if (outer && inner) instances.push_back({gpu, gi, ci, {*outer, *inner}});
      });
    });
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
