// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "catch.hpp"
#include "compute/cuda/staging.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"

using muster::compute::cuda::Gpu;
using muster::compute::cuda::PinnedMemory;
using muster::compute::cuda::Staging;

TEST_CASE("Staging sends each array, also when the stream is many arrays behind and arrays grow") {
  TestGpu const test_gpu;
  Gpu gpu;
  constexpr std::size_t arrays = 40, longest = 8;
  PinnedMemory received(gpu, arrays * longest * sizeof(int));
  auto* const numbers = static_cast<int*>(received.data());
  {
    Staging staging(gpu);
    for (std::size_t i = 0; i < arrays; ++i) {
      std::vector<int> const sent(i < arrays / 2 ? 1 : longest, static_cast<int>(i) + 1);
      auto const bytes = sent.size() * sizeof(int);
      gpu.download(numbers + i * longest, staging.send(sent.data(), bytes), bytes);
    }
  }
  gpu.synchronize();
  for (std::size_t i = 0; i < arrays; ++i)
    for (std::size_t k = 0; k < (i < arrays / 2 ? 1 : longest); ++k)
      REQUIRE(numbers[i * longest + k] == static_cast<int>(i) + 1);
}
