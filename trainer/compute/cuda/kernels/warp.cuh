// SPDX-License-Identifier: Apache-2.0
// Access to groups of elements that a thread moves at once. Arrays begin at multiples of 16 bytes.
#pragma once

#include "compute/cuda/kernels/mma.cuh"

namespace muster::compute::cuda {

constexpr int element_threads = 256;

/// Calls use(first) for each group of `grain` elements.
template <int grain, typename Use>
__device__ inline void for_each_group(std::size_t count, Use use) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x * grain;
  for (std::size_t at = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * grain; at < count;
       at += stride)
    use(at);
}

struct alignas(16) Float4 {
  float of[4];
};
/// Elements at … at + 3 of a 16-byte aligned array, zeros beyond `count`; `at` is a multiple of 4.
__device__ inline Float4 load_four(const float* from, std::size_t at, std::size_t count) {
  if (at + 4 <= count) return *reinterpret_cast<const Float4*>(from + at);
  Float4 four{};
#pragma unroll
  for (std::size_t i = 0; i < 4; ++i) {
    if (at + i < count) four.of[i] = from[at + i];
  }
  return four;
}
__device__ inline void store_four(float* to, std::size_t at, std::size_t count, const Float4& four) {
  if (at + 4 <= count) {
    *reinterpret_cast<Float4*>(to + at) = four;
    return;
  }
#pragma unroll
  for (std::size_t i = 0; i < 4; ++i) {
    if (at + i < count) to[at + i] = four.of[i];
  }
}
__device__ inline void store_four(Bf16* to, std::size_t at, std::size_t count, const Float4& four) {
  if (at + 4 <= count) {
    struct alignas(8) Pairs {
      std::uint32_t of[2];
    };
    *reinterpret_cast<Pairs*>(to + at) = {
        {narrow_pair(four.of[0], four.of[1]), narrow_pair(four.of[2], four.of[3])}};
    return;
  }
#pragma unroll
  for (std::size_t i = 0; i < 4; ++i) {
    if (at + i < count) to[at + i] = narrow(four.of[i]);
  }
}

}  // namespace muster::compute::cuda
