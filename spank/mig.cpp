// SPDX-License-Identifier: Apache-2.0
#include "mig.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace muster::spank {

namespace {

namespace fs = std::filesystem;
using Numbered = std::vector<std::pair<int, fs::path>>;

// The entries of a folder that are called prefix and a number.
Numbered numbered_entries(const fs::path& folder, std::string_view prefix) {
  Numbered entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (!std::string_view(name).starts_with(prefix)) continue;
    int number = 0;
    const char* last = name.data() + name.size();
    const auto [stop, failed] = std::from_chars(name.data() + prefix.size(), last, number);
    if (failed == std::errc() && stop == last && number >= 0) entries.emplace_back(number, at->path());
  }
  return entries;
}

std::optional<int> capability_in(const fs::path& folder) {
  std::ifstream file(folder / "access");
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
  std::vector<MigInstance> instances;
  for (const auto& [gpu, gpu_folder] :
       numbered_entries(fs::path(root) / "proc/driver/nvidia/capabilities", "gpu"))
    for (const auto& [gi, gi_folder] : numbered_entries(gpu_folder / "mig", "gi"))
      for (const auto& [ci, ci_folder] : numbered_entries(gi_folder, "ci")) {
        const auto outer = capability_in(gi_folder);
        const auto inner = capability_in(ci_folder);
        if (outer && inner) instances.push_back({gpu, gi, ci, {*outer, *inner}});
      }
  std::sort(instances.begin(), instances.end(), [](const MigInstance& a, const MigInstance& b) {
    return std::tie(a.gpu_minor, a.gpu_instance, a.compute_instance) <
           std::tie(b.gpu_minor, b.gpu_instance, b.compute_instance);
  });
  return instances;
}

bool may_use(const MigInstance& instance, const std::string& root) {
  const auto opens = [&](const std::string& file, int how) {
    return access((fs::path(root) / "dev" / file).c_str(), how) == 0;
  };
  return opens("nvidia" + std::to_string(instance.gpu_minor), R_OK | W_OK) &&
         std::all_of(instance.capabilities.begin(), instance.capabilities.end(), [&](int minor) {
           return opens("nvidia-caps/nvidia-cap" + std::to_string(minor), R_OK);
         });
}

}  // namespace muster::spank
