// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/kernels/kernel_binary.hpp"

namespace muster::compute::cuda {

const void* kernel_binary() noexcept { return nullptr; }

}  // namespace muster::compute::cuda
