// SPDX-License-Identifier: Apache-2.0
#include "run/open_gpu.hpp"

namespace muster {

bool computes_on_gpus(const Job& job) { return !job.roster().back().gpu_uuid.empty(); }

compute::cuda::OpenedGpu open_gpu(bool images, const Job& job, CollectiveErrors& errors) {
  compute::cuda::OpenedGpu gpu;
  errors.run_on_all([&] {
    if (job.on_gpu()) gpu = compute::cuda::open_gpu(images);
  });
  return gpu;
}

}  // namespace muster
