// SPDX-License-Identifier: Apache-2.0
// GPU instructions beyond C++: bfloat16 conversion, tensor cores, copies into shared memory. Sources of the
// register layouts: PTX ISA 8.5, "Matrix Fragments for mma.m16n8k16" and "ldmatrix".
#pragma once

#ifdef __CUDACC__
/// The dynamic shared memory of the block as bytes.
#define MUSTER_SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[]
#include <cstddef>
#include <cstdint>
#else
#include "emulated_gpu.hpp"  // the tests' fake GPU
#endif

namespace muster::compute::cuda {

/// bfloat16 in memory.
struct Bf16 {
  std::uint16_t bits;
};
/// Eight bfloat16, which a thread moves at once.
struct alignas(16) Bf16x8 {
  std::uint32_t pairs[4];
};

constexpr int warp_size = 32;
constexpr unsigned all_lanes = 0xffffffffu;

__device__ inline int lane() { return static_cast<int>(threadIdx.x % unsigned{warp_size}); }
__device__ inline int warp() { return static_cast<int>(threadIdx.x / unsigned{warp_size}); }

__device__ inline float widen_low(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float widen_high(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ inline float widen(Bf16 value) { return __uint_as_float(std::uint32_t{value.bits} << 16); }

#ifdef __CUDACC__

/// Rounds to nearest even; `low` goes into the lower half. NaN stays NaN.
__device__ inline std::uint32_t narrow_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// 2^x within 2 units in the last place; 2^-inf is 0.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// c += a·b on 16x8 accumulators, a 16x16 row-major, b 16x8 column-major.
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8x8 matrices; lanes 8i … 8i+7 point to the rows of matrix i.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const Bf16x8* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
/// As load_matrices(), each matrix transposed.
__device__ inline void load_matrices_transposed(std::uint32_t (&to)[4], const Bf16x8* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

/// Copies 16 bytes from global to shared memory asynchronously; unless `valid`, reads nothing and writes
/// zeros.
__device__ inline void copy_async(Bf16x8* shared, const void* global, bool valid) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}
/// Commits a group of copies.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for this thread's copies, except the last `groups` groups.
template <int groups>
__device__ inline void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

#endif

__device__ inline Bf16 narrow(float value) { return {static_cast<std::uint16_t>(narrow_pair(value, 0.0f))}; }

__device__ inline Bf16x8 load_packed(const Bf16* from) { return *reinterpret_cast<const Bf16x8*>(from); }
__device__ inline void to_floats(const Bf16x8& eight, float (&to)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = widen_low(eight.pairs[i]);
    to[2 * i + 1] = widen_high(eight.pairs[i]);
  }
}
__device__ inline void load_eight(const Bf16* from, float (&to)[8]) { to_floats(load_packed(from), to); }
__device__ inline Bf16x8 to_bf16x8(const float (&from)[8]) {
  Bf16x8 eight;
#pragma unroll
  for (int i = 0; i < 4; ++i) eight.pairs[i] = narrow_pair(from[2 * i], from[2 * i + 1]);
  return eight;
}
__device__ inline void store_eight(Bf16* to, const float (&from)[8]) {
  *reinterpret_cast<Bf16x8*>(to) = to_bf16x8(from);
}

/// Eight floats, which a thread moves 16 bytes at a time.
struct alignas(16) FloatVector {
  float of[8];
};
__device__ inline FloatVector load_packed(const float* from) {
  return *reinterpret_cast<const FloatVector*>(from);
}
__device__ inline void to_floats(const FloatVector& eight, float (&to)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = eight.of[i];
}
__device__ inline void load_eight(const float* from, float (&to)[8]) { to_floats(load_packed(from), to); }
__device__ inline void store_eight(float* to, const float (&from)[8]) {
  FloatVector eight;
#pragma unroll
  for (int i = 0; i < 8; ++i) eight.of[i] = from[i];
  *reinterpret_cast<FloatVector*>(to) = eight;
}

/// e^x.
__device__ inline float exponential(float x) { return power_of_two(x * 1.4426950408889634f); }

/// The sum of all lanes' values, the same on every lane.
template <typename Value>
__device__ inline Value sum_of_warp(Value value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(all_lanes, value, distance);
  return value;
}
__device__ inline float largest_of_warp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(all_lanes, value, distance));
  return value;
}

/// The sum over the block, the same on every thread, in a fixed order. `shared`: one value per warp; it may
/// be reused on return.
template <typename Value>
__device__ inline Value sum_of_block(Value value, Value* shared) {
  value = sum_of_warp(value);
  if (lane() == 0) shared[warp()] = value;
  __syncthreads();
  Value total = 0;
  for (unsigned i = 0; i < blockDim.x / warp_size; ++i) total += shared[i];
  __syncthreads();
  return total;
}
__device__ inline float largest_of_block(float value, float* shared) {
  value = largest_of_warp(value);
  if (lane() == 0) shared[warp()] = value;
  __syncthreads();
  for (unsigned i = 0; i < blockDim.x / warp_size; ++i) value = fmaxf(value, shared[i]);
  __syncthreads();
  return value;
}

}  // namespace muster::compute::cuda
