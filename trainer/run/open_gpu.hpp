// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/open_device.hpp"
#include "muster/job.hpp"
#include "training/collective_errors.hpp"

namespace muster {

/// Opens each rank's GPU if the job is on GPUs; otherwise the result has no compute. `images`: see
/// compute::cuda::open_gpu(). Collective.
/// @throws CollectiveAbort when only some ranks have a GPU, or one cannot be opened, after the error is
/// printed.
compute::cuda::OpenedGpu open_gpu(bool images, const Job& job, CollectiveErrors& errors);

}  // namespace muster
