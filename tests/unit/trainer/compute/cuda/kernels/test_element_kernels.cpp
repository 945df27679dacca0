// SPDX-License-Identifier: Apache-2.0
// GELU, sums and rounding of elements on the fake GPU; GELU against the CPU's in double.
#include "compute/cuda/kernels/elements.cuh"
#include "compute/cuda/kernels/launch_sizes.hpp"
#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;
using namespace muster::compute::cuda;

// The host's launch geometry must match the kernels'.
static_assert(sizes::element_threads == element_threads);

TEST_CASE("GELU and its gradient agree with the CPU's in double", "[gpu kernels]") {
  std::vector<Bf16> x = random_bf16(1000, 1, 3);
  x[0] = rounded(100), x[1] = rounded(-100), x[2] = rounded(1e20), x[3] = rounded(-1e20), x[4] = rounded(0);
  std::vector<Bf16> out(x.size()), d = random_bf16(x.size(), 2);
  const auto values = exact(x);
  std::vector<double> expected(x.size());
  auto d_expected = exact(d);
  muster::compute::cpu::CpuCompute<double> cpu({1, false, nullptr});
  cpu.gelu(values.data(), expected.data(), x.size());
  cpu.gelu_backward(values.data(), d_expected.data(), x.size());
  run(muster_gelu, {{2}, element_threads}, x.size(), x.data(), out);
  run(muster_gelu_backward, {{2}, element_threads}, x.size(), x.data(), d);
  CHECK(worst_ratio(out, expected, bounds(expected, 1.01 * half_unit, 1e-5)) < 1);
  // The CPU clamps its exponent, which makes 1e20's gradient far from 1: there only the GPU's own value is
  // checked.
  for (std::size_t i = 2; i < 4; ++i)
    CHECK(widen(d[i]) == widen(rounded(i == 2 ? exact(random_bf16(4, 2)[2]) : 0)));
  d[2] = d[3] = rounded(0), d_expected[2] = d_expected[3] = 0;
  CHECK(worst_ratio(d, d_expected, bounds(d_expected, 1.01 * half_unit, 1e-5)) < 1);
}

TEST_CASE("sums of gradients, for any length", "[gpu kernels]") {
  for (const std::size_t count : {1u, 3u, 4099u}) {
    const auto x = random_floats(count, 3);
    auto sum = random_floats(count, 4);
    const auto before = sum;
    run(muster_accumulate, {{2}, element_threads}, count, x.data(), 0, sum);
    for (std::size_t i = 0; i < count; ++i) REQUIRE(sum[i] == before[i] + x[i]);
    run(muster_accumulate, {{2}, element_threads}, count, x.data(), 1, sum);
    CHECK(sum == x);
  }
}

TEST_CASE("rounding works for any length", "[gpu kernels]") {
  for (const std::size_t count : {1u, 3u, 1027u}) {
    const auto from = random_floats(count, 3);
    std::vector<Bf16> to(count);
    run(muster_round, {{2}, element_threads}, count, from.data(), to);
    for (std::size_t i = 0; i < count; ++i) REQUIRE(to[i].bits == narrow(from[i]).bits);
  }
}
