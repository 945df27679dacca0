// SPDX-License-Identifier: Apache-2.0
// Assigns GPUs to tasks; a part of place().
#pragma once

#include <string>
#include <vector>

#include "placement/place/place.hpp"

namespace muster::placement {

/// A GPU or a MIG instance.
struct Device {
  const Gpu* gpu = nullptr;
  std::string uuid;
  bool mig = false;
};

/// The allotted devices of each task, consecutive in PCI order; empty for each task if none are allotted.
/// Throws Error if there are too few or one is not on the node.
std::vector<std::vector<Device>> assign_gpus(const Node& node, const Request& request,
                                             std::vector<std::string>& warnings);

}  // namespace muster::placement
