// SPDX-License-Identifier: Apache-2.0
#include "run/choose_device.hpp"

#include <fmt/format.h>

#include "compute/cuda/open_device.hpp"
#include "models/named_network.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

constexpr int head_width = 64, max_width = 2048;

std::string no_gpu_reason(const Options& o) {
  if (o.strategy == "central-storage" || o.strategy == "parameter-server")
    return fmt::format("--strategy={} computes on the CPU", o.strategy);
  if (!compute::cuda::has_kernels())
    return "this muster-train was built without nvcc, so without kernels for a GPU";
  if (o.dtype == "fp32" && o.origins.contains("dtype"))
    return "the GPU computes in bf16, and not in --dtype=fp32";
  if (models::is_image_network(o.model_name))
    return o.sync_batch_norm ? "the GPU has no batch normalization over all ranks, so no --sync-batch-norm"
                             : "";
  if (o.model.width != o.model.heads * head_width) {
    return fmt::format("the GPU's attention heads are {} wide, and {} of --width {} are {}", head_width,
                       o.model.heads, o.model.width, o.model.width / o.model.heads);
  }
  if (o.model.mlp_width() % 8 != 0)
    return fmt::format("the GPU's kernels take MLPs of a multiple of 8, and not {}", o.model.mlp_width());
  if (o.model.width > max_width)
    return fmt::format("the GPU's kernels take widths up to {}, and --width is {}", max_width, o.model.width);
  return "";
}

}  // namespace

ChosenDevice choose_device(const Options& options) {
  const std::string why = no_gpu_reason(options);
  if (why.empty() || options.device == Device::cpu) return {options.device, ""};
  if (options.device == Device::cuda) throw Error(ErrorCode::usage, why + ": pass --device=cpu");
  return {Device::cpu, why};
}

}  // namespace muster
