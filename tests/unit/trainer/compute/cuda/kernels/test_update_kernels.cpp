// SPDX-License-Identifier: Apache-2.0
// The end of a step on the fake GPU: norm, decision, AdamW and SGD.
#include <limits>

#include "compute/cuda/kernels/launch_sizes.hpp"
#include "compute/cuda/kernels/update.cuh"
#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;
using namespace muster::compute::cuda;

// The host's launch geometry must match the kernels'.
static_assert(sizes::norm_sum_threads == norm_sum_threads);

namespace {

double sum_squares(const std::vector<float>& x, bool reverse_order = false) {
  std::vector<double> partial(7);
  double sum = 1;
  run(muster_squares, {{7}, norm_sum_threads, warps_bytes, reverse_order}, x.size(), x.data(), partial);
  run(muster_sum_squares, {{1}, norm_sum_threads, warps_bytes, reverse_order}, 7, partial.data(), 1,
      std::span(&sum, 1));
  return sum - 1;
}

float find_flag(const std::vector<float>& x, float before = 0) {
  run(muster_find_not_finite, {{2}, element_threads}, x.size(), x.data(), std::span(&before, 1));
  return before;
}

Decision decide(double squares, float loss, float not_finite, float clip) {
  Decision decision;
  const float slots[] = {loss, not_finite, 2, 3};
  float slots_copy[4] = {};
  const double parts[] = {squares / 2, 0, squares / 2};
  run(muster_decide, {{1}, 32}, 3, parts, slots, clip, slots_copy, std::span(&decision, 1));
  CHECK(std::memcmp(slots_copy, slots, sizeof slots_copy) == 0);
  return decision;
}

constexpr float inf = std::numeric_limits<float>::infinity();

/// update(decision) runs a kernel. It must update nothing unless the decision says so, and then reach
/// `expected` and write the rounded copy.
template <typename Update>
void check_update(const Update& update, const std::vector<float>& parameter, const std::vector<Bf16>& copy,
                  const std::vector<double>& expected) {
  const auto before = parameter;
  const auto copy_before = copy;
  Decision decision{1, 0.25f, 0};
  update(decision);
  CHECK(same_bits(parameter, before));
  CHECK(same_bits(copy, copy_before));
  decision.apply = 1;
  update(decision);
  CHECK(worst_ratio(parameter, expected, bounds(expected, 1e-6, 1e-6)) < 1);
  for (std::size_t i = 0; i < copy.size(); ++i) REQUIRE(copy[i].bits == narrow(parameter[i]).bits);
}

}  // namespace

TEST_CASE("the sum of squares has the same bits in any order of threads", "[gpu kernels]") {
  for (const std::size_t count : {1u, 6u, 9003u}) {
    const auto x = random_floats(count, 1);
    double expected = 0;
    for (const float value : x) expected += exact(value) * exact(value);
    CHECK(sum_squares(x) == Approx(expected).epsilon(1e-12));
    CHECK(sum_squares(x) == sum_squares(x, true));
  }
}

TEST_CASE("the parts of a sum of squares are added, whatever their number", "[gpu kernels]") {
  for (const int parts : {1, 255, sizes::norm_sum_blocks + 3}) {
    std::vector<double> partial;
    for (const float value : random_floats(static_cast<std::size_t>(parts), 1))
      partial.push_back(exact(value));
    double expected = 0, sum = 0;
    for (const double part : partial) expected += part;
    run(muster_sum_squares, {{1}, norm_sum_threads, warps_bytes}, parts, partial.data(), 0,
        std::span(&sum, 1));
    CHECK(sum == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("a non-finite element is found at any position", "[gpu kernels]") {
  auto x = random_floats(4099, 1);  // more than the grid reads at once
  x[5] = std::numeric_limits<float>::max();
  CHECK(find_flag(x) == 0);
  CHECK(find_flag(x, 1) == 1);
  for (const std::size_t at : {0u, 1u, 2u, 3u, 4096u, 4097u, 4098u}) {
    for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
      auto spoiled = x;
      spoiled[at] = bad;
      CHECK(find_flag(spoiled) == 1);
    }
  }
}

TEST_CASE("a step is applied when norm, loss and all ranks' gradients are finite", "[gpu kernels]") {
  CHECK(decide(9, 2, 0, 1).apply == 1);
  CHECK(decide(9, 2, 0, 1).norm == 3);
  CHECK(decide(9, 2, 0, 1).gradient_scale == Approx(1.0 / 3));
  CHECK(decide(9, 2, 0, 0).gradient_scale == 1);
  CHECK(decide(0.25, 2, 0, 1).gradient_scale == 1);
  CHECK(decide(9, 2, 1, 1).apply == 0);
  for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    CHECK(decide(9, bad, 0, 1).apply == 0);
    CHECK(decide(9, 2, bad, 1).apply == 0);
    CHECK(decide(exact(bad), 2, 0, 1).apply == 0);
  }
}

TEST_CASE("a chunk's slots hold its loss and whether all of it was finite", "[gpu kernels]") {
  for (const double loss : {640.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    for (const float before : {0.0f, 1.0f}) {
      float not_finite = before, flag = 7, slots[4] = {7, 7, 7, 7};
      run(muster_end_chunk, {{1}, 32}, &loss, 1.0 / 64, 1.0f, 0.0f, std::span(&not_finite, 1),
          std::span(&flag, 1), slots);
      const float expected = before == 0 && loss == 640 ? 0 : 1;
      CHECK(slots[1] == expected);
      CHECK(flag == expected);
      CHECK(not_finite == 0);
      if (loss == 640) CHECK(slots[0] == 10);
      CHECK(slots[2] == 1);
      CHECK(slots[3] == 0);
    }
  }
}

TEST_CASE("AdamW agrees with the CPU's in double and writes the rounded copy", "[gpu kernels]") {
  const std::size_t count = 4099;  // more than the grid updates at once
  const auto gradient = random_floats(count, 1);
  auto parameter = random_floats(count, 2), moment1 = random_floats(count, 3, 0.1), moment2 = moment1;
  for (float& value : moment2) value = std::abs(value);
  auto p = exact(parameter), m1 = exact(moment1), m2 = exact(moment2);
  const auto g = exact(gradient);
  muster::compute::AdamwStep step;
  step.learning_rate = 0.01, step.beta1 = 0.9, step.beta2 = 0.99, step.epsilon = 1e-8,
  step.weight_decay = 0.1;
  step.gradient_scale = 0.25, step.correction1 = 0.5, step.correction2 = 0.3;
  muster::compute::cpu::CpuCompute<double> cpu({1, false, nullptr});
  cpu.adamw(step, p.data(), g.data(), m1.data(), m2.data(), nullptr, count);

  std::vector<Bf16> copy(count, rounded(7));
  const UpdateScalars scalars{0.9f, 0.99f, 0.01f / 0.5f, 1 / 0.3f, 1e-8f, 1 - 0.01f * 0.1f};
  const auto update = [&](const Decision& decision) {
    run(muster_adamw, {{2}, element_threads}, count, scalars, &decision, parameter, gradient.data(), moment1,
        moment2, copy);
  };
  check_update(update, parameter, copy, p);
  CHECK(worst_ratio(moment1, m1, bounds(m1, 1e-6, 1e-7)) < 1);
  CHECK(worst_ratio(moment2, m2, bounds(m2, 1e-6, 1e-7)) < 1);
}

TEST_CASE("SGD agrees with the CPU's in double and writes the rounded copy", "[gpu kernels]") {
  const std::size_t count = 4099;  // more than the grid updates at once
  const auto gradient = random_floats(count, 1);
  for (const bool nesterov : {false, true}) {
    auto parameter = random_floats(count, 2), momentum = random_floats(count, 3, 0.1);
    auto p = exact(parameter), v = exact(momentum);
    const auto g = exact(gradient);
    const muster::compute::SgdStep step{0.01, 0.9, nesterov, 0.1, 0.25};
    muster::compute::cpu::CpuCompute<double> cpu({1, false, nullptr});
    cpu.sgd(step, p.data(), g.data(), v.data(), nullptr, count);

    std::vector<Bf16> copy(count, rounded(7));
    const SgdScalars scalars{0.1f, 0.9f, nesterov ? 0.01f : 0, nesterov ? 0.009f : 0.01f};
    const auto update = [&](const Decision& decision) {
      run(muster_sgd, {{2}, element_threads}, count, scalars, &decision, parameter, gradient.data(), momentum,
          copy);
    };
    check_update(update, parameter, copy, p);
    CHECK(worst_ratio(momentum, v, bounds(v, 1e-6, 1e-6)) < 1);
  }
}

TEST_CASE("the fake GPU finds threads that miss each other", "[gpu kernels]") {
  CHECK_THROWS_AS(launch({{1, 1, 1}, 64, 0, false},
                         [] {
                           if (threadIdx.x != 3) __syncthreads();
                         }),
                  std::logic_error);
  CHECK_THROWS_AS(launch({{1, 1, 1}, 32, 0, false},
                         [] {
                           if (threadIdx.x != 3) __syncwarp();
                         }),
                  std::logic_error);
  CHECK_THROWS_AS(launch({{1, 1, 1}, 32, 0, false},
                         [] {
                           if (threadIdx.x == 3)
                             __syncwarp();
                           else
                             __shfl_xor_sync(all_lanes, 1, 1);
                         }),
                  std::logic_error);
}

TEST_CASE("statistics move towards the batch's if the step updates anything", "[gpu kernels]") {
  const auto before = random_floats(300, 1), batch = random_floats(300, 2);
  auto statistic = before;
  for (const int apply : {0, 1}) {
    const Decision decision{1, 0.5f, apply};
    run(muster_move_statistics, {{1}, element_threads}, before.size(), 0.1f, &decision, statistic,
        batch.data());
    if (apply == 0) CHECK(same_bits(statistic, before));
  }
  std::vector<double> expected;
  for (std::size_t i = 0; i < before.size(); ++i)
    expected.push_back(0.9 * exact(before[i]) + 0.1 * exact(batch[i]));
  CHECK(worst_ratio(statistic, expected, bounds(expected, 1e-6, 1e-6)) < 1);
}
