// SPDX-License-Identifier: Apache-2.0
// The reducer's bfloat16 and deterministic modes on the real NCCL and this GPU's arithmetic, compared with
// the host's.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "catch.hpp"
#include "on_gpu.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;
using one_gpu::check;
using one_gpu::OnGpu;

namespace {

const std::vector<std::size_t> lengths{1000, 1, 0, 4097, 33, 200'001};

// Numbers of many magnitudes, subnormal ones among them.
std::vector<float> chunk_of_gradient(std::uint64_t chunk, std::size_t parameter) {
  std::mt19937 random(static_cast<unsigned>(chunk * 100 + parameter));
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::vector<float> values(lengths[parameter]);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(mantissa(random), i % 100 == 0 ? -130 : static_cast<int>(i % 25) - 12);
  return values;
}

bool same_bits_in(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<std::vector<float>> on_host(const ReducerOptions& options) {
  auto world = job().host_world();
  Reducer reducer(world, lengths, options);
  for (auto chunk = reducer.chunks().begin; chunk < reducer.chunks().end; ++chunk) {
    for (std::size_t i = lengths.size(); i-- > 0;) {
      auto const values = chunk_of_gradient(chunk, i);
      std::copy(values.begin(), values.end(), reducer.gradient(i).begin());
      reducer.ready(i);
    }
  }
  reducer.finish();
  std::vector<std::vector<float>> left;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    left.emplace_back(reducer.gradient(i).begin(), reducer.gradient(i).end());
  return left;
}

// Every chunk's gradients are on the GPU before the step, so that all of the step is enqueued without a
// pause.
using Chunk = std::vector<std::unique_ptr<OnGpu<float>>>;
std::vector<Chunk> chunks_on_gpu(const Share& chunks) {
  std::vector<Chunk> all;
  for (auto chunk = chunks.begin; chunk < chunks.end; ++chunk) {
    auto& gradients = all.emplace_back();
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      auto values = chunk_of_gradient(chunk, i);
      values.resize(values.size() + 1);  // cudaMalloc(0) returns null
      gradients.push_back(std::make_unique<OnGpu<float>>(values));
      check(cudaStreamSynchronize(gradients.back()->stream()));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("NCCL's reducer gives the same bits as the host's, in bfloat16 and in the deterministic mode") {
  auto world = job().world();
  if (world.size() > 2) return;  // without PMIx the host's collectives use the control plane, which is slow
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const ReducerOptions& options :
       {ReducerOptions{.bucket_bytes = 40'000, .bfloat16 = true},
        ReducerOptions{
            .reduction = Reduction::sum, .bucket_bytes = 1u << 30, .bfloat16 = true, .overlap = false},
        ReducerOptions{.bucket_bytes = 40'000, .chunks = 1},
        ReducerOptions{.bucket_bytes = 1u << 30, .chunks = 3},
        ReducerOptions{.reduction = Reduction::sum, .bucket_bytes = 40'000, .chunks = 8},
        ReducerOptions{.bucket_bytes = 40'000, .chunks = 7, .overlap = false}}) {
    INFO(options.chunks << " chunks, buckets of " << options.bucket_bytes << " bytes");
    auto const expected = on_host(options);
    Reducer reducer(world, lengths, options);
    auto const chunks = chunks_on_gpu(reducer.chunks());
    for (int step = 0; step < 3; ++step) {
      for (const auto& chunk : chunks) {
        for (std::size_t i = lengths.size(); i-- > 0;) {
          check(cudaMemcpyAsync(reducer.gradient(i).data(), chunk[i]->view().data(),
                                lengths[i] * sizeof(float), cudaMemcpyDeviceToDevice, stream));
          reducer.ready(i, stream);
        }
      }
      reducer.finish(stream);
      world.synchronize(stream);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        std::vector<float> got(lengths[i]);
        check(cudaMemcpy(got.data(), reducer.gradient(i).data(), got.size() * sizeof(float),
                         cudaMemcpyDeviceToHost));
        INFO("step " << step << ", parameter " << i);
        REQUIRE(same_bits_in(got, expected[i]));
      }
      REQUIRE(reducer.last_step().buckets == reducer.buckets());
    }
  }
  check(cudaStreamDestroy(stream));
}

TEST_CASE("NCCL's reducer adds long chunks that the program overwrites on its stream without waiting") {
  auto world = job().world();
  std::size_t const length = std::size_t{1} << 24;
  std::uint64_t const chunks = 12;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Reducer reducer(world, std::vector<std::size_t>{length}, {.reduction = Reduction::sum, .chunks = chunks});
  std::vector<float> got(length);
  for (int step = 0; step < 3; ++step) {
    for (auto chunk = reducer.chunks().begin; chunk < reducer.chunks().end; ++chunk) {
      // Of four equal bytes, as a memset can write.
      check(cudaMemsetAsync(reducer.gradient(0).data(), static_cast<int>(0x40 + chunk),
                            length * sizeof(float), stream));
      reducer.ready(0, stream);
    }
    reducer.finish(stream);
    check(cudaMemcpyAsync(got.data(), reducer.gradient(0).data(), length * sizeof(float),
                          cudaMemcpyDeviceToHost, stream));
    world.synchronize(stream);
    std::vector<float> tree(16);
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk)
      tree[chunk] = std::bit_cast<float>(static_cast<std::uint32_t>((0x40 + chunk) * 0x01010101u));
    for (std::size_t width = 1; width < 16; width *= 2)
      for (std::size_t i = 0; i + width < chunks; i += 2 * width) tree[i] += tree[i + width];
    REQUIRE(std::count(got.begin(), got.end(), tree[0]) == static_cast<std::ptrdiff_t>(length));
  }
  check(cudaStreamDestroy(stream));
}
