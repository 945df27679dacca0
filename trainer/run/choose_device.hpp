// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/options.hpp"
#include "muster/job.hpp"

namespace muster {

struct ChosenDevice {
  Device device = Device::automatic;  ///< for Job::join()
  std::string no_gpu_reason;          ///< empty when a GPU can compute the model
};

/// Why a GPU computes nothing in --dtype=fp32.
inline constexpr const char* fp32_on_gpu = "the GPU computes in bf16, and not in --dtype=fp32";
/// Why no GPU computes GPTs of these sizes in this build; empty: a GPU can.
std::string describe_missing_kernels(const models::GptConfig& config);
/// The same for networks on images.
std::string describe_missing_kernels();

/// With --device=auto: the CPU when the GPU cannot compute this model.
/// @throws muster::Error(ErrorCode::usage) for --device=cuda when the GPU cannot compute this model.
ChosenDevice choose_device(Device wanted, const std::string& no_gpu_reason);
/// Likewise, to train.
ChosenDevice choose_device(const Options& options);

}  // namespace muster
