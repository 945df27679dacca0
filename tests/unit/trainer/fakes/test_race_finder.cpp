// SPDX-License-Identifier: Apache-2.0
// Whether the fake GPU and ThreadSanitizer report a wait that a kernel lacks: a build in which they see
// nothing would pass all tests of races. The cases without a wait are hidden; ctest runs each and expects the
// report.
#include <vector>

#include "compute/cuda/kernels/mma.cuh"
#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;
using namespace muster::compute::cuda;

namespace {

enum class Wait { none, for_copies, for_block, for_warp };

constexpr unsigned threads = 64;

/// out[thread] = what thread + 32 has copied of `in`, by way of the neighbouring lane.
void exchange_pieces(Wait missing, const Bf16x8* in, std::uint32_t* out) {
  MUSTER_SHARED_BYTES(shared);
  auto* const pieces = reinterpret_cast<Bf16x8*>(shared);
  auto* const passed = reinterpret_cast<std::uint32_t*>(pieces + threads);
  copy_async(pieces + threadIdx.x, in + threadIdx.x, true);
  end_copies();
  if (missing != Wait::for_copies) await_copies<0>();
  if (missing != Wait::for_block) __syncthreads();
  passed[threadIdx.x] = pieces[(threadIdx.x + 32) % threads].pairs[0];
  if (missing != Wait::for_warp) __syncwarp();
  out[threadIdx.x] = passed[threadIdx.x ^ 1];
}

void run_without(Wait missing) {
  std::vector<Bf16x8> in(threads);
  for (unsigned i = 0; i < threads; ++i) in[i].pairs[0] = i;
  std::vector<std::uint32_t> out(threads);
  launch({{1}, threads, threads * (sizeof(Bf16x8) + sizeof(std::uint32_t))},
         [&] { exchange_pieces(missing, in.data(), out.data()); });
  if (missing != Wait::none) return;
  for (unsigned i = 0; i < threads; ++i) CHECK(out[i] == ((i ^ 1) + 32) % threads);
}

/// The first block and block `other` of several launches write the same element.
void write_twice(unsigned other) {
  for (int i = 0; i < 16; ++i) {
    unsigned out = 0;
    launch({{other + 1}, 32}, [&] {
      if (threadIdx.x == 0 && (blockIdx.x == 0 || blockIdx.x == other)) out = blockIdx.x;
    });
  }
}

}  // namespace

TEST_CASE("a kernel with all waits has no race", "[race finder]") { run_without(Wait::none); }

TEST_CASE("a kernel that does not wait for its copies", "[.]") { run_without(Wait::for_copies); }
TEST_CASE("a kernel that does not wait for its block", "[.]") { run_without(Wait::for_block); }
TEST_CASE("a kernel that does not wait for its warp", "[.]") { run_without(Wait::for_warp); }

TEST_CASE("a kernel whose blocks 0 and 1 write the same", "[.]") { write_twice(1); }
TEST_CASE("a kernel whose blocks 0 and 2 write the same", "[.]") { write_twice(2); }
TEST_CASE("a kernel whose blocks 0 and 4 write the same", "[.]") { write_twice(4); }
