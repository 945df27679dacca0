// SPDX-License-Identifier: Apache-2.0
#include "run/choose_device.hpp"

#include <fmt/format.h>

#include "compute/cuda/kernels/launch_sizes.hpp"
#include "compute/cuda/open_device.hpp"
#include "models/named_network.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

std::string no_gpu_reason(const Options& o) {
  if (o.dtype == "fp32" && o.origins.contains("dtype")) return fp32_on_gpu;
  if (!models::is_image_network(o.model_name)) return describe_missing_kernels(o.model);
  return describe_missing_kernels();
}

}  // namespace

std::string describe_missing_kernels() {
  return compute::cuda::has_kernels()
             ? ""
             : "this muster-train was built without nvcc, so without kernels for a GPU";
}

std::string describe_missing_kernels(const models::GptConfig& config) {
  using namespace compute::cuda::sizes;
  if (std::string missing = describe_missing_kernels(); !missing.empty()) return missing;
  if (!is_head_width(config.head_width()) || config.width != config.heads * config.head_width()) {
    return fmt::format("the GPU's attention heads are {} wide, and {} of --width {} are {}", head_widths_text,
                       config.heads, config.width, config.head_width());
  }
  if (config.mlp_width() % 8 != 0)
    return fmt::format("the GPU's kernels take MLPs of a multiple of 8, and not {}", config.mlp_width());
  if (config.width > widest_row)
    return fmt::format("the GPU's kernels take widths up to {}, and --width is {}", widest_row, config.width);
  return "";
}

ChosenDevice choose_device(Device wanted, const std::string& no_gpu_reason) {
  if (no_gpu_reason.empty() || wanted == Device::cpu) return {wanted, ""};
  if (wanted == Device::cuda) throw Error(ErrorCode::usage, no_gpu_reason + ": pass --device=cpu");
  return {Device::cpu, no_gpu_reason};
}

ChosenDevice choose_device(const Options& options) {
  return choose_device(options.device, no_gpu_reason(options));
}

}  // namespace muster
