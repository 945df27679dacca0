// SPDX-License-Identifier: Apache-2.0
// A fake GPU: the kernels' own sources, compiled by the host's compiler, run block after block with a fibre
// for each thread. It shows what a kernel computes, accesses beyond its memory (with AddressSanitizer), and
// threads that miss each other at a barrier. Compiled with FAKE_GPU_FINDS_RACES, ThreadSanitizer reports
// accesses that no barrier, __syncwarp(), or wait for copies orders; shuffles and matrix instructions order
// nothing, and neither do blocks of one launch. It does not model speed or caches.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#define __global__
#define __device__
#define __launch_bounds__(...)
#define MUSTER_SHARED_BYTES(name) unsigned char* const name = fake_gpu::shared_memory()

namespace fake_gpu {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

}  // namespace fake_gpu

/// For the running thread.
inline fake_gpu::Index threadIdx, blockIdx;
inline fake_gpu::Extent blockDim, gridDim;

namespace fake_gpu {

struct Launch {
  Extent grid;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;
  bool reverse_order = false;  ///< run threads in descending order
};

/// Runs `thread` once for each thread of each block.
/// @throws std::logic_error if threads wait for each other for ever, or a warp's lanes call different
/// operations.
void launch(const Launch& launch, const std::function<void()>& thread);

/// The block's shared memory: filled with NaNs when the block starts, and exactly as large as the launch
/// requests.
unsigned char* shared_memory();
void sync_block();
void sync_warp();

/// A warp operation: every lane calls with the same `function` and its own `argument`; `function` is called
/// once, with all arguments.
using Lanes = std::array<void*, 32>;
using WarpFunction = void (*)(const Lanes& lanes);
void run_on_warp(void* argument, WarpFunction function);

/// This thread's asynchronous copies. They are done when the thread waits for them.
void enqueue_copy(void* to, const void* from, bool valid);
void commit_copies();
void wait_for_copies(std::size_t groups);

// The lanes' own variables, which no program can race on.
#define FAKE_GPU_UNCHECKED __attribute__((no_sanitize("thread")))

template <typename Value>
struct Exchange {
  Value value;
  int from;  ///< lane
  Value result{};
};
template <typename Value>
FAKE_GPU_UNCHECKED Value exchange(Value value, int from) {
  Exchange<Value> argument{value, from, {}};
  run_on_warp(&argument, [](const Lanes& lanes) FAKE_GPU_UNCHECKED {
    void* const* const all = lanes.data();
    for (std::size_t i = 0; i < 32; ++i) {
      auto& to = *static_cast<Exchange<Value>*>(all[i]);
      to.result = static_cast<Exchange<Value>*>(all[to.from])->value;
    }
  });
  return argument.result;
}

}  // namespace fake_gpu

inline float __uint_as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline void __syncthreads() { fake_gpu::sync_block(); }
inline void __syncwarp() { fake_gpu::sync_warp(); }
template <typename Value>
Value __shfl_xor_sync(unsigned, Value value, int distance) {
  return fake_gpu::exchange(value, static_cast<int>(threadIdx.x % 32) ^ distance);
}
template <typename Value>
Value __shfl_sync(unsigned, Value value, int from) {
  return fake_gpu::exchange(value, from);
}

namespace muster::compute::cuda {

struct Bf16x8;

// Replacements for the PTX instructions of mma.cuh.
std::uint32_t narrow_pair(float low, float high);
inline float power_of_two(float x) { return std::exp2(x); }
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
void load_matrices(std::uint32_t (&to)[4], const Bf16x8* row);
void load_matrices_transposed(std::uint32_t (&to)[4], const Bf16x8* row);
inline void copy_async(Bf16x8* shared, const void* global, bool valid) {
  fake_gpu::enqueue_copy(shared, global, valid);
}
inline void end_copies() { fake_gpu::commit_copies(); }
template <int groups>
void await_copies() {
  fake_gpu::wait_for_copies(groups);
}

}  // namespace muster::compute::cuda
