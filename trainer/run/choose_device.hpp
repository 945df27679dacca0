// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/options.hpp"
#include "muster/job.hpp"

namespace muster {

struct ChosenDevice {
  Device device = Device::automatic;  ///< to join with
  std::string why_no_gpu;             ///< in a few words; empty when a GPU would do
};

/// Where --device=auto lets a run compute that a GPU cannot: on the CPU.
/// @throws muster::Error(ErrorCode::usage) for --device=cuda then.
ChosenDevice choose_device(const Options& options);

}  // namespace muster
