// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::compute::cuda {

/// The fat binary of kernels.cu; null where the trainer was built without nvcc.
const void* kernel_binary() noexcept;

}  // namespace muster::compute::cuda
