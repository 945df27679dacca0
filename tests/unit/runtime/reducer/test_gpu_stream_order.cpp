// SPDX-License-Identifier: Apache-2.0
// The reducer beside a program's streams, on a fake GPU that runs them in random orders: whatever the order,
// the gradients have the bits of host memory. Each seed is an order, so a wait that is missing fails with
// some.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "random_gradient.hpp"
#include "ranks_on_fake_gpus.hpp"

namespace {

constexpr int seeds = 24;
constexpr std::uint64_t steps = 3;
const std::vector<std::size_t> sizes{40, 1, 33, 500, 7};

// A program's backward pass on two streams. It writes gradients by copies from host memory, which stay as
// they are until the end, and copies each step's results to the host.
struct TwoStreams {
  TwoStreams() { call_cuda("cuEventCreate", &event, 0u); }
  ~TwoStreams() {
    for (Stream const stream : streams) destroy_stream(stream);
    call_cuda("cuEventDestroy_v2", event);
  }
  TwoStreams(const TwoStreams&) = delete;
  TwoStreams& operator=(const TwoStreams&) = delete;
  Stream of(std::size_t parameter) const { return streams[parameter % 2]; }
  // The second stream waits for the first: only that waits in finish().
  void join() const {
    call_cuda("cuEventRecord", event, streams[0]);
    call_cuda("cuStreamWaitEvent", streams[1], event, 0u);
  }
  std::vector<Stream> streams{create_stream(), create_stream()};
  void* event = nullptr;
};

std::vector<float> on_streams(Communicator world, const ReducerOptions& options, bool scattered) {
  TwoStreams const program;
  std::vector<std::vector<float>> apart, written, results;
  std::vector<std::span<float>> spans;
  for (auto const size : sizes) apart.emplace_back(size + 1);
  for (std::size_t i = 0; i < sizes.size(); ++i) spans.push_back(std::span(apart[i]).first(sizes[i]));
  auto reducer = scattered ? Reducer(world, spans, options) : Reducer(world, sizes, options);
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (auto chunk = reducer.chunks().begin; chunk < reducer.chunks().end; ++chunk) {
      for (std::size_t i = sizes.size(); i-- > 0;) {
        written.push_back(random_gradient(sizes[i], chunk, i, step));
        call_cuda("cuMemcpyHtoDAsync_v2", reducer.gradient(i).data(), written.back().data(),
                  sizes[i] * sizeof(float), program.of(i));
        reducer.ready(i, program.of(i));
      }
    }
    reducer.finish(program.streams[0]);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      results.emplace_back(sizes[i]);
      call_cuda("cuMemcpyDtoHAsync_v2", results.back().data(), reducer.gradient(i).data(),
                sizes[i] * sizeof(float), program.streams[0]);
    }
    program.join();
  }
  world.synchronize(program.streams[0]);
  std::vector<float> all;
  for (const auto& result : results) all.insert(all.end(), result.begin(), result.end());
  return all;
}

std::vector<float> on_host_memory(const Communicator& world, const ReducerOptions& options) {
  Reducer reducer(world, sizes, options);
  std::vector<float> all;
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (auto chunk = reducer.chunks().begin; chunk < reducer.chunks().end; ++chunk) {
      for (std::size_t i = sizes.size(); i-- > 0;) {
        auto const values = random_gradient(sizes[i], chunk, i, step);
        std::copy(values.begin(), values.end(), reducer.gradient(i).begin());
        reducer.ready(i);
      }
    }
    reducer.finish();
    for (std::size_t i = 0; i < sizes.size(); ++i)
      all.insert(all.end(), reducer.gradient(i).begin(), reducer.gradient(i).end());
  }
  return all;
}

}  // namespace

TEST_CASE(
    "in any order that the streams allow, the reducer's gradients on GPUs have the bits of host memory") {
  std::vector<ReducerOptions> const all{
      {.bucket_bytes = 200, .bfloat16 = true},
      {.bucket_bytes = 200, .chunks = 1},
      {.bucket_bytes = 200, .chunks = 5},
      {.bucket_bytes = 100'000, .chunks = 4, .overlap = false},
  };
  using ByRank = std::vector<std::vector<float>>;
  for (int const ranks : {1, 2}) {
    std::vector<ByRank> expected(all.size(), ByRank(2)), found = expected;
    for (int seed = 1; seed <= seeds; ++seed) {
      CAPTURE(ranks, seed);
      setenv("FAKE_CUDA_SEED", std::to_string(seed).c_str(), 1);
      run_on_gpus(ranks, [&](int rank, const Communicator& on_gpu, const Communicator& on_host) {
        auto const r = static_cast<std::size_t>(rank);
        for (std::size_t o = 0; o < all.size(); ++o) {
          if (seed == 1) expected[o][r] = on_host_memory(on_host, all[o]);
          found[o][r] = on_streams(on_gpu, all[o], seed % 2 == 0);
        }
      });
      unsetenv("FAKE_CUDA_SEED");
      for (std::size_t o = 0; o < all.size(); ++o) {
        INFO("options " << o);
        for (std::size_t r = 0; r < 2; ++r) CHECK(same_bits(found[o][r], expected[o][r]));
      }
    }
  }
  CHECK(live_cuda_objects() == 0);
  CHECK(nccl_count("fake_nccl_allocations") == 0);
}
