// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "compute/memory.hpp"

namespace muster::compute {

/// A host copy of a device's values; for host memory the values themselves. The constructor waits for the
/// copy.
class HostCopy {
 public:
  HostCopy(std::span<const float> device_values, Memory& memory) : values_(device_values) {
    if (memory.is_host()) return;
    copy_.resize(device_values.size());
    memory.copy_out(copy_.data(), device_values.data(), device_values.size_bytes());
    values_ = copy_;
  }
  std::span<const float> values() const { return values_; }

 private:
  std::vector<float> copy_;
  std::span<const float> values_;
};

}  // namespace muster::compute
