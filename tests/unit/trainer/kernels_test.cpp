// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "model_fixture.hpp"

using muster::compute::MatmulShape;
using muster::compute::cpu::CpuCompute;
using muster::compute::cpu::kernels_named;

namespace {

std::vector<float> numbers(std::size_t count, std::uint64_t stream) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(muster::normal(1, stream, i));
  return out;
}

void check_matmul(const MatmulShape& s, CpuCompute<float>& compute) {
  const auto a = numbers(static_cast<std::size_t>(s.m * s.k), 1),
             b = numbers(static_cast<std::size_t>(s.k * s.n), 2);
  const auto bias = numbers(static_cast<std::size_t>(s.n), 3),
             before = numbers(static_cast<std::size_t>(s.m * s.n), 4);
  auto c = before;
  compute.matmul(s, a.data(), b.data(), s.bias ? bias.data() : nullptr, c.data());
  double worst = 0;
  for (int i = 0; i < s.m; ++i) {
    for (int j = 0; j < s.n; ++j) {
      double sum = s.bias ? bias[static_cast<std::size_t>(j)] : 0;
      if (s.accumulate) sum += before[static_cast<std::size_t>(i * s.n + j)];
      for (int p = 0; p < s.k; ++p) {
        sum += double{a[static_cast<std::size_t>(s.transpose_a ? p * s.m + i : i * s.k + p)]} *
               double{b[static_cast<std::size_t>(s.transpose_b ? j * s.k + p : p * s.n + j)]};
      }
      worst = std::max(worst, std::abs(sum - double{c[static_cast<std::size_t>(i * s.n + j)]}));
    }
  }
  CAPTURE(compute.describe(), s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.bias, s.accumulate);
  CHECK(worst < 1e-6 * s.k + 1e-5);
}

}  // namespace

TEST_CASE("matrix products of every form and odd size", "[kernels]") {
  CpuCompute<float> dnnl({1, true, nullptr}), own({2, false, nullptr}),
      baseline({1, false, kernels_named<float>("baseline")});
  for (CpuCompute<float>* compute : {&dnnl, &own, &baseline}) {
    for (const auto& [m, n, k] : {std::array{5, 7, 3}, std::array{33, 65, 17}, std::array{8, 32, 1030}}) {
      for (int form = 0; form < 16; ++form) {
        check_matmul({m, n, k, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, (form & 8) != 0}, *compute);
      }
    }
  }
}

TEST_CASE("cross-entropy in float stays exact for large logits and shows NaN", "[kernels]") {
  auto compute = test_compute<float>();
  std::vector<float> logits(256, -200.0f);
  logits[7] = 300.0f;
  const muster::compute::Token right = 7, wrong = 8;
  CHECK(compute.cross_entropy(logits.data(), &right, 1, 256, 0.0f) == Approx(0).margin(1e-6));
  CHECK(compute.cross_entropy(logits.data(), &wrong, 1, 256, 0.0f) == Approx(500));
  logits[9] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(compute.cross_entropy(logits.data(), &right, 1, 256, 0.0f)));
}

TEST_CASE("GELU matches its definition", "[kernels]") {
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    const auto* kernels = kernels_named<float>(set);
    if (!kernels) continue;
    CpuCompute<float> compute({1, true, kernels});
    for (float x = -12; x <= 12; x += 0.037f) {
      float out = 0;
      compute.gelu(&x, &out, 1);
      const double y = double{x};
      const double expected = 0.5 * y * (1 + std::tanh(std::sqrt(2 / M_PI) * (y + 0.044715 * y * y * y)));
      CHECK(double{out} == Approx(expected).margin(2e-6));
    }
  }
}

TEST_CASE("updates give the same bits with every instruction set", "[kernels]") {
  const std::size_t count = 1003;  // not a multiple of any vector
  const auto gradients = numbers(count, 5);
  const auto* baseline = kernels_named<float>("baseline");
  const auto run = [&](const muster::compute::cpu::Kernels<float>& kernels) {
    auto parameters = numbers(count, 6);
    std::vector<float> moment1(count, 0.01f), moment2(count, 0.02f);
    kernels.update.adamw(parameters.data(), gradients.data(), moment1.data(), moment2.data(), count, 0.7f,
                         0.9f, 0.99f, 1e-3f, 1.3f, 1e-8f, 0.999f);
    return parameters;
  };
  const auto expected = run(*baseline);
  const double norm = baseline->update.sum_of_squares(gradients.data(), count);
  for (const char* set : {"avx2", "avx512"}) {
    if (const auto* kernels = kernels_named<float>(set)) {
      CHECK(run(*kernels) == expected);
      CHECK(kernels->update.sum_of_squares(gradients.data(), count) == norm);
    }
  }
}
