// SPDX-License-Identifier: Apache-2.0
// A test double of a GPU: the kernels' own sources, compiled by the host's compiler, run block after block
// with a fibre for each thread. It shows what a kernel computes, where it reads and writes beyond its memory
// (with AddressSanitizer) and where threads miss each other at a barrier. It knows nothing of speed, of
// caches, or of races that another order of threads would show, beyond the two orders that it can take.
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
#define MUSTER_SHARED_BYTES(name) unsigned char* const name = emulated::shared_memory()

namespace emulated {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

}  // namespace emulated

/// Of the thread that runs now.
inline emulated::Index threadIdx, blockIdx;
inline emulated::Extent blockDim, gridDim;

namespace emulated {

struct Launch {
  Extent grid;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;
  bool last_thread_first = false;  ///< the other order
};

/// Runs `thread` once for each thread of each block.
/// @throws std::logic_error where threads wait for each other for ever, or a warp's lanes for different
/// things.
void launch(const Launch& launch, const std::function<void()>& thread);

/// Of the block, filled with NaNs at its start and exactly as large as the launch says.
unsigned char* shared_memory();
void wait_for_block();

/// What a warp does together: every lane calls with the same `act` and its own `mine`; `act` is called once,
/// with all.
using Lanes = std::array<void*, 32>;
using Act = void (*)(const Lanes& lanes);
void together(void* mine, Act act);

/// This thread's asynchronous copies: they happen when it waits for them.
void copy_later(void* to, const void* from, bool there);
void end_group_of_copies();
void await_groups_but(std::size_t groups);

template <typename Value>
struct Exchange {
  Value value;
  int from;  ///< lane
  Value result{};
};
template <typename Value>
Value exchange(Value value, int from) {
  Exchange<Value> mine{value, from, {}};
  together(&mine, [](const Lanes& lanes) {
    for (void* each : lanes) {
      auto& to = *static_cast<Exchange<Value>*>(each);
      to.result = static_cast<Exchange<Value>*>(lanes[static_cast<std::size_t>(to.from)])->value;
    }
  });
  return mine.result;
}

}  // namespace emulated

inline float __uint_as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline void __syncthreads() { emulated::wait_for_block(); }
inline void __syncwarp() {
  emulated::together(nullptr, [](const emulated::Lanes&) {});
}
template <typename Value>
Value __shfl_xor_sync(unsigned, Value value, int distance) {
  return emulated::exchange(value, static_cast<int>(threadIdx.x % 32) ^ distance);
}
template <typename Value>
Value __shfl_sync(unsigned, Value value, int from) {
  return emulated::exchange(value, from);
}

namespace muster::compute::cuda {

struct EightNarrow;

// The doubles of what instructions.cuh says in PTX.
std::uint32_t narrow_pair(float low, float high);
inline float power_of_two(float x) { return std::exp2(x); }
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
void load_matrices(std::uint32_t (&to)[4], const EightNarrow* row);
void load_matrices_transposed(std::uint32_t (&to)[4], const EightNarrow* row);
inline void copy_async(EightNarrow* shared, const void* global, bool there) {
  emulated::copy_later(shared, global, there);
}
inline void end_copies() { emulated::end_group_of_copies(); }
template <int groups>
void await_copies() {
  emulated::await_groups_but(groups);
}

}  // namespace muster::compute::cuda
