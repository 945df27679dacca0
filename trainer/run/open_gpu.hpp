// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/open_device.hpp"
#include "muster/job.hpp"
#include "training/collective_errors.hpp"

namespace muster {

/// Whether the job's ranks compute on GPUs. Ranks that only serve the others have none (cpu_ranks of
/// JoinOptions); they are the first ones.
bool computes_on_gpus(const Job& job);

/// True on a rank without a GPU that serves those that compute on GPUs.
inline bool only_serves(const Job& job) { return computes_on_gpus(job) && !job.on_gpu(); }

/// Opens this rank's GPU, if it has one; otherwise the result has no compute. `images`: see
/// compute::cuda::open_gpu(). Collective.
/// @throws CollectiveAbort when one cannot be opened, after the error is printed.
compute::cuda::OpenedGpu open_gpu(bool images, const Job& job, CollectiveErrors& errors);

}  // namespace muster
