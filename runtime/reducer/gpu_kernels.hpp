// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace muster::detail {

/// Kernels of gpu_kernels.cu, in the order of gpu_kernel_names.
enum class GpuKernel : std::size_t { add, divide, narrow, widen, sum_shards };
inline constexpr std::array gpu_kernel_names{"muster_add", "muster_divide", "muster_narrow", "muster_widen",
                                             "muster_sum_shards"};

/// The fat binary of gpu_kernels.cu; null if this library was built without nvcc.
const void* gpu_kernels() noexcept;

}  // namespace muster::detail
