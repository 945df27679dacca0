// SPDX-License-Identifier: Apache-2.0
#include "run/open_gpu.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace muster {

compute::cuda::OpenedGpu open_gpu(bool images, const Job& job, CollectiveErrors& errors) {
  const auto differ = errors.differing_ranks(job.on_gpu() ? 1 : 0);
  errors.run_on_rank0([&] {
    if (differ.empty()) return;
    throw Error(ErrorCode::usage,
                fmt::format("rank 0 computes on the {} and rank {} does not: pass --device, or start one "
                            "task for each GPU",
                            job.on_gpu() ? "GPU" : "CPU", fmt::join(differ, ", ")));
  });
  compute::cuda::OpenedGpu gpu;
  errors.run_on_all([&] {
    if (job.on_gpu()) gpu = compute::cuda::open_gpu(images);
  });
  return gpu;
}

}  // namespace muster
