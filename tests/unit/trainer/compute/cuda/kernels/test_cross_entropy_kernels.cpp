// SPDX-License-Identifier: Apache-2.0
// Cross-entropy and the sum of losses on the fake GPU, against the CPU's in double.
#include <limits>

#include "compute/cuda/kernels/cross_entropy.cuh"
#include "compute/cuda/kernels/launch_sizes.hpp"
#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;
using namespace muster::compute::cuda;

// The host's launch geometry must match the kernels'.
static_assert(sizes::classifier_threads == classifier_threads);
static_assert(sizes::sum_threads == sum_threads);

namespace {

// Columns `from` to `to` of rows that lie `stride` values apart.
std::vector<Bf16> columns(const std::vector<Bf16>& values, int stride, int from, int to) {
  std::vector<Bf16> found;
  for (auto row = values.begin(); row != values.end(); row += stride)
    found.insert(found.end(), row + from, row + to);
  return found;
}

struct Classified {
  std::vector<Bf16> logits;
  std::vector<float> losses;
};
Classified compute_cross_entropy(int classes, int stride, std::vector<Bf16> logits,
                                 const std::vector<std::uint32_t>& targets, float scale,
                                 float smoothing = 0) {
  Classified result{std::move(logits), std::vector<float>(targets.size())};
  run(muster_cross_entropy, {{static_cast<unsigned>(targets.size())}, classifier_threads, warps_bytes},
      classes, stride, result.logits, targets.data(), scale, smoothing, result.losses);
  return result;
}

}  // namespace

TEST_CASE("cross-entropy agrees with the CPU's in double", "[gpu kernels]") {
  for (const auto& [classes, stride] : {std::array{250, 256}, std::array{4099, 4160}, std::array{8, 8}}) {
    CAPTURE(classes, stride);
    const std::vector<std::uint32_t> targets{0, static_cast<std::uint32_t>(classes - 1), 5};
    const auto logits = random_bf16(3 * static_cast<std::size_t>(stride), 1, 4);
    auto gradient = exact(columns(logits, stride, 0, classes));
    muster::compute::cpu::CpuCompute<double> cpu({1, false, nullptr});
    const double expected = cpu.cross_entropy(gradient.data(), targets.data(), 3, classes, 0.01);
    const Classified found = compute_cross_entropy(classes, stride, logits, targets, 0.01f);
    double sum = 0;
    run(muster_sum_losses, {{1}, sum_threads, warps_bytes}, 3, found.losses.data(), 0, std::span(&sum, 1));
    CHECK(sum == Approx(expected).epsilon(1e-6));
    run(muster_sum_losses, {{1}, sum_threads, warps_bytes}, 3, found.losses.data(), 1, std::span(&sum, 1));
    CHECK(sum == Approx(2 * expected).epsilon(1e-6));
    for (const Bf16 beyond : columns(found.logits, stride, classes, stride)) REQUIRE(beyond.bits == 0);
    const auto inside = columns(found.logits, stride, 0, classes);
    CHECK(worst_ratio(inside, gradient, bounds(gradient, 1.01 * half_unit, 1e-9)) < 1);
    CHECK(same_bits(compute_cross_entropy(classes, stride, logits, targets, 0).logits, logits));
  }
}

TEST_CASE("cross-entropy with smoothed labels agrees with the CPU's in double", "[gpu kernels]") {
  for (const auto& [classes, stride] : {std::array{250, 256}, std::array{9000, 9024}}) {
    CAPTURE(classes, stride);
    const std::vector<std::uint32_t> targets{0, static_cast<std::uint32_t>(classes - 1)};
    const auto logits = random_bf16(2 * static_cast<std::size_t>(stride), 1, 4);
    auto gradient = exact(columns(logits, stride, 0, classes));
    muster::compute::cpu::CpuCompute<double> cpu({1, false, nullptr});
    cpu.set_label_smoothing(0.25);
    const double expected = cpu.cross_entropy(gradient.data(), targets.data(), 2, classes, 0.01);
    const Classified found = compute_cross_entropy(classes, stride, logits, targets, 0.01f, 0.25f);
    CHECK(found.losses[0] + found.losses[1] == Approx(expected).epsilon(1e-6));
    for (const Bf16 beyond : columns(found.logits, stride, classes, stride)) REQUIRE(beyond.bits == 0);
    const auto inside = columns(found.logits, stride, 0, classes);
    CHECK(worst_ratio(inside, gradient, bounds(gradient, 1.01 * half_unit, 1e-8)) < 1);
    const Classified validated = compute_cross_entropy(classes, stride, logits, targets, 0, 0.25f);
    CHECK(validated.losses == compute_cross_entropy(classes, stride, logits, targets, 0).losses);
  }
}

TEST_CASE("the sum of losses is right for any number of rows", "[gpu kernels]") {
  for (const std::size_t count : {1u, 1023u, 5003u}) {
    const auto losses = random_floats(count, 1);
    double expected = 0, sum = 0;
    for (const float loss : losses) expected += exact(loss);
    run(muster_sum_losses, {{1}, sum_threads, warps_bytes}, static_cast<int>(count), losses.data(), 0,
        std::span(&sum, 1));
    CHECK(sum == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("cross-entropy stays exact for large logits and keeps non-finite logits visible", "[gpu kernels]") {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<Bf16> logits(256, rounded(-200));
  logits[7] = rounded(300);
  CHECK(compute_cross_entropy(250, 256, logits, {7}, 0).losses[0] == Approx(0).margin(1e-6));
  CHECK(compute_cross_entropy(250, 256, logits, {8}, 0).losses[0] == Approx(500));
  logits[3] = rounded(-infinity);
  CHECK(compute_cross_entropy(250, 256, logits, {7}, 0).losses[0] == Approx(0).margin(1e-6));
  CHECK(compute_cross_entropy(250, 256, logits, {3}, 0).losses[0] == std::numeric_limits<float>::infinity());
  CHECK(compute_cross_entropy(250, 256, std::vector<Bf16>(256, rounded(-infinity)), {3}, 0).losses[0] !=
        Approx(0).margin(1e9));
  logits[9] = rounded(infinity);
  CHECK(std::isnan(compute_cross_entropy(250, 256, logits, {9}, 0).losses[0]));
  logits[9] = rounded(std::numeric_limits<double>::quiet_NaN());
  CHECK(std::isnan(compute_cross_entropy(250, 256, logits, {7}, 0).losses[0]));
  logits[9] = rounded(0);
  logits[253] = rounded(infinity);  // beyond the classes
  CHECK(compute_cross_entropy(250, 256, logits, {7}, 0).losses[0] == Approx(0).margin(1e-6));
}
