// SPDX-License-Identifier: Apache-2.0
// The reducer's CUDA kernels on the fake GPU of the trainer's kernels.
#include <limits>

#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;

#include "reducer/gpu_kernels.cu"

namespace {

constexpr std::size_t counts[] = {1, 31, 192, 4097};

Launch some_blocks(bool reverse_order = false) { return {{3}, 64, 0, reverse_order}; }

std::vector<std::uint16_t> random_bfloat16(std::size_t count, std::uint64_t stream) {
  std::vector<std::uint16_t> out;
  for (const float value : random_floats(count, stream)) out.push_back(bfloat16_bits(value));
  return out;
}

}  // namespace

TEST_CASE("the reducer's kernels add and divide each gradient once", "[gpu kernels]") {
  for (const std::size_t count : counts) {
    const auto a = random_floats(count, 1), b = random_floats(count, 2);
    auto sum = a;
    run(muster_add, some_blocks(), count, sum, b.data());
    auto quotient = sum;
    run(muster_divide, some_blocks(true), count, quotient, 3.0f);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(sum[i] == a[i] + b[i]);
      REQUIRE(quotient[i] == sum[i] / 3.0f);
    }
  }
}

TEST_CASE("the reducer's kernels round to bfloat16 and back", "[gpu kernels]") {
  for (const std::size_t count : counts) {
    auto values = random_floats(count, 3);
    values[0] = std::numeric_limits<float>::infinity();
    std::vector<std::uint16_t> narrow(count);
    run(muster_narrow, some_blocks(), count, narrow, values.data());
    std::vector<float> wide(count);
    run(muster_widen, some_blocks(), count, wide, narrow.data());
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(narrow[i] == bfloat16_bits(values[i]));
      REQUIRE(wide[i] == bfloat16_value(narrow[i]));
    }
  }
}

TEST_CASE("the reducer's kernel adds shards in their order and rounds once", "[gpu kernels]") {
  for (const std::size_t shards : {1u, 3u, 8u, 14u}) {
    for (const std::size_t count : counts) {
      auto from = random_bfloat16(shards * count, 4);
      from.back() = bfloat16_bits(std::numeric_limits<float>::infinity());
      std::vector<std::uint16_t> sum(count);
      run(muster_sum_shards, some_blocks(), count, sum, from.data(), shards, 3.0f);
      for (std::size_t i = 0; i < count; ++i) {
        float expected = bfloat16_value(from[i]);
        for (std::size_t shard = 1; shard < shards; ++shard)
          expected += bfloat16_value(from[shard * count + i]);
        REQUIRE(sum[i] == bfloat16_bits(expected / 3.0f));
      }
    }
  }
}
