// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "trainer/models/model_fixture.hpp"

using muster::bfloat16;
using muster::compute::MatmulShape;
using muster::compute::cpu::CpuCompute;
using muster::compute::cpu::find_kernels;

namespace {

std::vector<float> numbers(std::size_t count, std::uint64_t stream) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(muster::normal(1, stream, i));
  return out;
}

template <typename Real>
std::vector<Real> numbers_in(std::size_t count, std::uint64_t stream) {
  const auto exact = numbers(count, stream);
  std::vector<Real> out;
  for (const float x : exact) out.push_back(Real(x));
  return out;
}

double exact(float x) { return double{x}; }
double exact(bfloat16 x) { return double{float(x)}; }

/// The largest distance to the exact result. Each distance is divided by the element's size when the
/// element's type is not the type of the sums.
template <typename Real, typename Out>
double largest_error(const MatmulShape& s, const std::vector<Real>& a, const std::vector<Real>& b,
                     const std::vector<Real>& bias, const std::vector<Out>& before,
                     const std::vector<Out>& c) {
  double worst = 0;
  for (int i = 0; i < s.m; ++i) {
    for (int j = 0; j < s.n; ++j) {
      double sum = s.bias ? exact(bias[static_cast<std::size_t>(j)]) : 0;
      if (s.accumulate) sum += exact(before[static_cast<std::size_t>(i * s.n + j)]);
      for (int p = 0; p < s.k; ++p) {
        sum += exact(a[static_cast<std::size_t>(s.transpose_a ? p * s.m + i : i * s.k + p)]) *
               exact(b[static_cast<std::size_t>(s.transpose_b ? j * s.k + p : p * s.n + j)]);
      }
      const double size = std::is_same_v<Out, bfloat16> ? std::max(1.0, std::abs(sum)) : 1;
      worst = std::max(worst, std::abs(sum - exact(c[static_cast<std::size_t>(i * s.n + j)])) / size);
    }
  }
  return worst;
}

template <typename Real>
void check_matmul(const MatmulShape& s, CpuCompute<Real>& compute) {
  const auto a = numbers_in<Real>(static_cast<std::size_t>(s.m * s.k), 1),
             b = numbers_in<Real>(static_cast<std::size_t>(s.k * s.n), 2),
             bias = numbers_in<Real>(static_cast<std::size_t>(s.n), 3),
             before = numbers_in<Real>(static_cast<std::size_t>(s.m * s.n), 4);
  auto c = before;
  compute.matmul(s, a.data(), b.data(), s.bias ? bias.data() : nullptr, c.data());
  CAPTURE(compute.describe(), s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.bias, s.accumulate);
  // Half a unit in bfloat16's last place is at most 2^-8 of a number; the product itself has the error of
  // float.
  const double rounding = std::is_same_v<Real, bfloat16> ? 0x1p-8 : 0;
  CHECK(largest_error(s, a, b, bias, before, c) < 1e-6 * s.k + 1e-5 + rounding);
}

template <typename Real>
void check_weight_gradient(int rows, int from, int to, CpuCompute<Real>& compute) {
  const auto input = numbers_in<Real>(static_cast<std::size_t>(rows * from), 1),
             d_out = numbers_in<Real>(static_cast<std::size_t>(rows * to), 2);
  std::vector<float> d_weight(static_cast<std::size_t>(to * from), 7),
      d_bias(static_cast<std::size_t>(to), 7);
  compute.weight_gradient(rows, from, to, input.data(), d_out.data(), d_weight.data(), d_bias.data());
  CAPTURE(compute.describe(), rows, from, to);
  CHECK(largest_error<Real, float>({.m = to, .n = from, .k = rows, .transpose_a = true}, d_out, input, {}, {},
                                   d_weight) < 1e-6 * rows + 1e-5);
  const std::vector<Real> ones(static_cast<std::size_t>(rows), Real(1.0f));
  CHECK(largest_error<Real, float>({.m = to, .n = 1, .k = rows, .transpose_a = true}, d_out, ones, {}, {},
                                   d_bias) < 1e-6 * rows + 1e-5);
}

template <typename Real>
void check_products() {
  CpuCompute<Real> dnnl({1, true, nullptr}), own({2, false, nullptr}),
      baseline({1, false, find_kernels<Real>("baseline")});
  for (CpuCompute<Real>* compute : {&dnnl, &own, &baseline}) {
    for (const auto& [m, n, k] : {std::array{5, 7, 3}, std::array{33, 65, 17}, std::array{8, 32, 1030}}) {
      for (int form = 0; form < 16; ++form) {
        check_matmul({m, n, k, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, (form & 8) != 0}, *compute);
      }
      check_weight_gradient(k, n, m, *compute);
    }
  }
}

}  // namespace

TEST_CASE("matrix products of every form and odd size", "[kernels]") {
  SECTION("float") { check_products<float>(); }
  SECTION("bfloat16") { check_products<bfloat16>(); }
}

TEST_CASE("every instruction set rounds to bfloat16 as the library does", "[kernels]") {
  std::vector<float> values;
  for (std::uint64_t i = 0; i < 4099; ++i)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(muster::uniform_bits(3, 1, i))));
  for (const std::uint32_t bits : {0u, 0x80000000u, 0x3f808000u, 0x3f818000u, 0x3f808001u, 0x7f7fffffu,
                                   0x7f800000u, 0xff800000u, 0x7f800001u, 0xffffffffu, 1u, 0x8000u, 0x18000u})
    values.push_back(std::bit_cast<float>(bits));
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    const auto* kernels = find_kernels<float>(set);
    if (!kernels) continue;
    std::vector<bfloat16> rounded(values.size());
    kernels->update.round(values.data(), rounded.data(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      CAPTURE(set, std::bit_cast<std::uint32_t>(values[i]));
      CHECK(rounded[i].bits == bfloat16(values[i]).bits);
    }
  }
}

TEST_CASE("norms in bfloat16 add the residual stream and its gradient in float", "[kernels]") {
  constexpr int rows = 5, width = 203;
  constexpr std::size_t size = std::size_t{rows} * width;
  const auto x = numbers(size, 1), before = numbers(size, 2);
  const auto addend = numbers_in<bfloat16>(size, 3), gain = numbers_in<bfloat16>(width, 4),
             d_out = numbers_in<bfloat16>(size, 5);
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    const auto* kernels = find_kernels<bfloat16>(set);
    if (!kernels) continue;
    CpuCompute<bfloat16> compute({1, true, kernels});
    for (const bool llama : {false, true}) {
      CAPTURE(set, llama);
      std::vector<float> sum(size), mean(rows), rstd(rows), d_x = before, d_gain(width), d_bias(width);
      std::vector<bfloat16> out(size), rounded(size);
      if (llama) {
        compute.llama()->rms_norm(x.data(), addend.data(), sum.data(), gain.data(), out.data(), rstd.data(),
                                  rows, width, 1e-5);
        compute.llama()->rms_norm_backward(sum.data(), gain.data(), rstd.data(), d_out.data(), d_x.data(),
                                           rounded.data(), d_gain.data(), rows, width);
      } else {
        compute.layer_norm(x.data(), addend.data(), sum.data(), gain.data(), gain.data(), out.data(),
                           mean.data(), rstd.data(), rows, width);
        compute.layer_norm_backward(sum.data(), gain.data(), mean.data(), rstd.data(), d_out.data(),
                                    d_x.data(), rounded.data(), d_gain.data(), d_bias.data(), rows, width);
      }
      for (std::size_t row = 0; row < rows; ++row) {
        const auto hat = [&](std::size_t i) {
          return (double{sum[row * width + i]} - double{mean[row]}) * double{rstd[row]};
        };
        const auto d_hat = [&](std::size_t i) { return exact(d_out[row * width + i]) * exact(gain[i]); };
        double total = 0, dot = 0;
        for (std::size_t i = 0; i < width; ++i) total += llama ? 0 : d_hat(i), dot += d_hat(i) * hat(i);
        for (std::size_t i = 0; i < width; ++i) {
          const std::size_t at = row * width + i;
          REQUIRE(sum[at] == x[at] + static_cast<float>(addend[at]));
          const double d = (d_hat(i) - total / width - hat(i) * dot / width) * double{rstd[row]};
          REQUIRE(double{d_x[at]} == Approx(double{before[at]} + d).margin(1e-5));
          REQUIRE(rounded[at].bits == bfloat16(d_x[at]).bits);
        }
      }
    }
  }
}

TEST_CASE("cross-entropy with smoothed labels follows its definition, in training alone", "[kernels]") {
  auto compute = test_compute<double>();
  const std::vector<double> logits{0.5, -1, 2, 0.25, 3, -2};
  const muster::compute::Token targets[] = {2, 0};
  constexpr int classes = 3;
  constexpr double smoothing = 0.3, scale = 0.5;
  compute.set_label_smoothing(smoothing);
  auto gradient = logits;
  const double loss = compute.cross_entropy(gradient.data(), targets, 2, classes, scale);
  double expected = 0, hard = 0;
  for (std::size_t row = 0; row < 2; ++row) {
    double total = 0;
    for (std::size_t i = 0; i < classes; ++i) total += std::exp(logits[row * classes + i]);
    for (std::size_t i = 0; i < classes; ++i) {
      const double wanted = smoothing / classes + (i == targets[row] ? 1 - smoothing : 0.0),
                   p = std::exp(logits[row * classes + i]) / total;
      expected -= wanted * std::log(p);
      if (i == targets[row]) hard -= std::log(p);
      CHECK(gradient[row * classes + i] == Approx(scale * (p - wanted)).epsilon(1e-12));
    }
  }
  CHECK(loss == Approx(expected).epsilon(1e-12));
  auto validated = logits;
  CHECK(compute.cross_entropy(validated.data(), targets, 2, classes, 0) == Approx(hard).epsilon(1e-12));
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
    const auto* kernels = find_kernels<float>(set);
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
  const auto* baseline = find_kernels<float>("baseline");
  const auto run = [&](const muster::compute::cpu::Kernels<float>& kernels) {
    auto parameters = numbers(count, 6);
    std::vector<float> moment1(count, 0.01f), moment2(count, 0.02f), unrounded = parameters, m = moment1,
                                                                     v = moment2;
    std::vector<bfloat16> rounded(count), expected_rounded(count);
    const auto update = [&](float* p, float* first, float* second, bfloat16* to) {
      kernels.update.adamw(p, gradients.data(), first, second, to, count, 0.7f, 0.9f, 0.99f, 1e-3f, 1.3f,
                           1e-8f, 0.999f);
    };
    update(unrounded.data(), m.data(), v.data(), nullptr);
    update(parameters.data(), moment1.data(), moment2.data(), rounded.data());
    CHECK(unrounded == parameters);
    kernels.update.round(parameters.data(), expected_rounded.data(), count);
    const auto same = [](bfloat16 x, bfloat16 y) { return x.bits == y.bits; };
    CHECK(std::equal(rounded.begin(), rounded.end(), expected_rounded.begin(), same));
    return parameters;
  };
  const auto descend = [&](const auto& kernels) {
    std::vector<float> parameters(count, 0.5f), momentum(count, 0.25f), unrounded = parameters, m = momentum;
    std::vector<bfloat16> rounded(count), expected_rounded(count);
    const auto update = [&](float* p, float* v, bfloat16* to) {
      kernels.update.sgd(p, gradients.data(), v, to, count, 0.7f, 1e-4f, 0.9f, true, 1e-2f);
    };
    update(unrounded.data(), m.data(), nullptr);
    update(parameters.data(), momentum.data(), rounded.data());
    CHECK(unrounded == parameters);
    kernels.update.round(parameters.data(), expected_rounded.data(), count);
    const auto same = [](bfloat16 x, bfloat16 y) { return x.bits == y.bits; };
    CHECK(std::equal(rounded.begin(), rounded.end(), expected_rounded.begin(), same));
    return parameters;
  };
  const auto expected = run(*baseline), descended = descend(*baseline);
  const double norm = baseline->update.sum_of_squares(gradients.data(), count);
  for (const char* set : {"avx2", "avx512"}) {
    if (const auto* kernels = find_kernels<float>(set)) {
      CHECK(run(*kernels) == expected);
      CHECK(descend(*kernels) == descended);
      CHECK(kernels->update.sum_of_squares(gradients.data(), count) == norm);
    }
  }
}
