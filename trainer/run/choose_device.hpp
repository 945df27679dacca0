// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/options.hpp"
#include "muster/job.hpp"

namespace muster {

struct ChosenDevice {
  Device device = Device::automatic;  ///< for Job::join()
  std::string no_gpu_reason;          ///< empty when a GPU can train the model
};

/// With --device=auto: the CPU when the GPU cannot train this model.
/// @throws muster::Error(ErrorCode::usage) for --device=cuda when the GPU cannot train this model.
ChosenDevice choose_device(const Options& options);

}  // namespace muster
