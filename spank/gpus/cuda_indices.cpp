// SPDX-License-Identifier: Apache-2.0
#include "gpus/cuda_indices.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace muster::spank {

namespace {

std::size_t count_driver_gpus(const std::string& root) {
  std::error_code error;
  const std::filesystem::directory_iterator gpus(root + "/proc/driver/nvidia/gpus", error), end;
  return error ? 0 : static_cast<std::size_t>(std::distance(gpus, end));
}

}  // namespace

std::vector<int> find_cuda_minors(const placement::Node& node, const std::vector<MigInstance>& instances,
                                  const std::string& root) {
  if (!instances.empty() || count_driver_gpus(root) != node.gpus.size()) return {};
  std::vector<int> minors;
  for (const auto& gpu : node.gpus) minors.push_back(gpu.minor);
  if (std::find(minors.begin(), minors.end(), -1) != minors.end()) return {};
  return minors;
}

bool are_numbers(const std::vector<std::string>& cuda_devices) {
  return std::all_of(cuda_devices.begin(), cuda_devices.end(), [](const std::string& name) {
    return name.find_first_not_of("0123456789") == std::string::npos;
  });
}

}  // namespace muster::spank
