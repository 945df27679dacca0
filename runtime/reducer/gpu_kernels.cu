// SPDX-License-Identifier: Apache-2.0
// The reducer's arithmetic on GPU memory: one element at a time, by element_ops.hpp. Compiled into a separate
// fat binary, which does not use the CUDA runtime and is loaded through the driver.
#include "reducer/element_ops.hpp"

using namespace muster::detail;

namespace {

// Works with any number of blocks and threads.
template <typename Use>
__device__ void for_each(std::size_t count, Use use) {
  auto const stride = std::size_t{gridDim.x} * blockDim.x;
  for (auto i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) use(i);
}

}  // namespace

// The count is the first argument of each kernel.
extern "C" {

__global__ void muster_add(std::size_t count, float* to, const float* from) {
  for_each(count, [=](std::size_t i) { add_element(to, from, i); });
}
__global__ void muster_divide(std::size_t count, float* values, float divisor) {
  for_each(count, [=](std::size_t i) { divide_element(values, divisor, i); });
}
__global__ void muster_narrow(std::size_t count, std::uint16_t* to, const float* from) {
  for_each(count, [=](std::size_t i) { narrow_element(to, from, i); });
}
__global__ void muster_widen(std::size_t count, float* to, const std::uint16_t* from) {
  for_each(count, [=](std::size_t i) { widen_element(to, from, i); });
}
__global__ void muster_sum_shards(std::size_t count, std::uint16_t* to, const std::uint16_t* from,
                                  std::size_t shards, float divisor) {
  for_each(count, [=](std::size_t i) { sum_shards_element(to, from, shards, count, divisor, i); });
}

}  // extern "C"
