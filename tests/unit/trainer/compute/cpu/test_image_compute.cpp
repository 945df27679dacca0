// SPDX-License-Identifier: Apache-2.0
// The operations on images against their definitions in plain loops.
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "catch.hpp"
#include "compute/cpu/cpu_compute.hpp"
#include "compute/cpu/unfolded_convolution.hpp"
#include "compute/cpu/upcast_convolution.hpp"
#include "muster/philox.hpp"

using namespace muster;
using namespace muster::compute;

namespace {

template <typename T>
double wide(T x) {
  return static_cast<double>(x);
}
double wide(bfloat16 x) { return static_cast<float>(x); }

/// Values that bfloat16 holds exactly, so that all types compute on the same ones.
template <typename Real>
std::vector<Real> drawn(std::size_t count, std::uint64_t stream) {
  std::vector<Real> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = Real(static_cast<float>(static_cast<int>(uniform_bits(3, stream, i) % 65) - 32) / 32);
  return values;
}

/// Largest difference relative to the largest expected value.
template <typename Real>
double difference(const std::vector<Real>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double off = std::abs(wide(found[i]) - expected[i]);
    if (!(off <= most)) most = off;
    largest = std::max(largest, std::abs(expected[i]));
  }
  REQUIRE(largest > 0);
  return most / largest;
}

template <typename Real>
double bound() {
  if (std::is_same_v<Real, double>) return 1e-12;
  return std::is_same_v<Real, float> ? 1e-5 : 5e-3;
}

/// Calls f(output element, input element, weight element) for every product of a convolution.
template <typename F>
void for_each_product(const ConvolutionShape& s, F&& f) {
  const int in = s.in / s.groups, out = s.out / s.groups;
  for (int n = 0; n < s.batch; ++n)
    for (int y = 0; y < s.out_height(); ++y)
      for (int x = 0; x < s.out_width(); ++x)
        for (int o = 0; o < s.out; ++o)
          for (int i = 0; i < in; ++i)
            for (int row = 0; row < s.window; ++row)
              for (int column = 0; column < s.window; ++column) {
                const int from_y = y * s.stride + row - s.padding, from_x = x * s.stride + column - s.padding;
                if (from_y < 0 || from_y >= s.height || from_x < 0 || from_x >= s.width) continue;
                const int channel = o / out * in + i;
                f(static_cast<std::size_t>(((n * s.out_height() + y) * s.out_width() + x) * s.out + o),
                  static_cast<std::size_t>(((n * s.height + from_y) * s.width + from_x) * s.in + channel),
                  static_cast<std::size_t>(((o * in + i) * s.window + row) * s.window + column));
              }
}

template <typename Real>
void check_convolution(const ConvolutionShape& s, const cpu::CpuCompute<Real>& compute_of,
                       ImageCompute<Real>& images) {
  using Sum = Accurate<Real>;
  CAPTURE(s.height, s.width, s.in, s.out, s.window, s.stride, s.groups, compute_of.describe());
  const auto batch = static_cast<std::size_t>(s.batch),
             in = batch * s.in_pixels() * static_cast<std::size_t>(s.in),
             out = batch * s.out_pixels() * static_cast<std::size_t>(s.out);
  const auto x = drawn<Real>(in, 1), weight = drawn<Real>(s.weights(), 2), d_out = drawn<Real>(out, 3),
             bias = drawn<Real>(static_cast<std::size_t>(s.out), 4);
  std::vector<double> y(out), d_x(in), d_weight(s.weights()), d_bias(static_cast<std::size_t>(s.out));
  for_each_product(s, [&](std::size_t o, std::size_t i, std::size_t w) {
    y[o] += wide(x[i]) * wide(weight[w]);
    d_x[i] += wide(d_out[o]) * wide(weight[w]);
    d_weight[w] += wide(d_out[o]) * wide(x[i]);
  });
  for (std::size_t o = 0; o < out; ++o) d_bias[o % d_bias.size()] += wide(d_out[o]);
  std::vector<Real> found(out), found_d_x(in);
  std::vector<Sum> found_d_weight(s.weights()), found_d_bias(d_bias.size());
  for (int again = 0; again < 2; ++again) {  // a cached primitive computes the same
    images.convolve(s, x.data(), weight.data(), nullptr, found.data());
    CHECK(difference(found, y) < bound<Real>());
    images.convolve_backward_images(s, d_out.data(), weight.data(), found_d_x.data());
    CHECK(difference(found_d_x, d_x) < bound<Real>());
    images.convolve_backward_weight(s, x.data(), d_out.data(), found_d_weight.data(), nullptr);
    CHECK(difference(found_d_weight, d_weight) < bound<Sum>());
    images.convolve_backward_weight(s, x.data(), d_out.data(), found_d_weight.data(), found_d_bias.data());
    CHECK(difference(found_d_weight, d_weight) < bound<Sum>());
    CHECK(difference(found_d_bias, d_bias) < bound<Sum>());
  }
  images.convolve(s, x.data(), weight.data(), bias.data(), found.data());
  for (std::size_t o = 0; o < out; ++o) y[o] += wide(bias[o % bias.size()]);
  CHECK(difference(found, y) < bound<Real>());
}

const ConvolutionShape convolutions[] = {{2, 9, 7, 3, 16, 3, 1, 1, 1},    {2, 9, 7, 16, 32, 3, 2, 1, 1},
                                         {3, 5, 6, 16, 24, 1, 1, 0, 1},   {2, 6, 5, 20, 8, 1, 2, 0, 1},
                                         {1, 15, 12, 3, 8, 7, 2, 3, 1},   {2, 12, 12, 1, 10, 5, 1, 0, 1},
                                         {2, 8, 9, 16, 16, 3, 1, 1, 16},  {2, 9, 7, 24, 24, 3, 2, 1, 24},
                                         {17, 3, 2, 40, 40, 3, 1, 1, 40}, {9, 4, 3, 20, 20, 3, 2, 1, 20}};

/// Batch normalization by its definition, against the kernels of every instruction set.
template <typename Real>
void check_batch_norm(cpu::CpuBatchNorm<Real>& norm, std::size_t rows, int channels) {
  using Sum = Accurate<Real>;
  CAPTURE(rows, channels);
  const auto width = static_cast<std::size_t>(channels), count = rows * width;
  auto x = drawn<Real>(count, 1);
  for (std::size_t i = 0; i < count; ++i) x[i] = Real(Sum(x[i]) + Sum(2 * (i % width % 3)));
  const auto out = drawn<Real>(count, 2), first = drawn<Real>(count, 3), second = drawn<Real>(count, 4);
  std::vector<double> mean(width), squares(width), sum(width), dot(width);
  for (std::size_t i = 0; i < count; ++i) mean[i % width] += wide(x[i]) / wide(rows);
  std::vector<Sum> rounded_mean(mean.begin(), mean.end());
  for (Sum& value : rounded_mean) value += Sum(0.25);  // any value will do
  std::vector<double> masked(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double off = wide(x[i]) - mean[i % width];
    squares[i % width] += off * off;
    masked[i] = wide(out[i]) > 0 ? wide(first[i]) + wide(second[i]) : 0;
    sum[i % width] += masked[i];
    dot[i % width] += masked[i] * (wide(x[i]) - wide(rounded_mean[i % width]));
  }
  std::vector<double> found_mean(width), found_squares(width), found_sum(width), found_dot(width);
  norm.moments(rows, channels, x.data(), found_mean.data(), found_squares.data());
  CHECK(difference(found_mean, mean) < bound<Sum>());
  if (rows > 1) CHECK(difference(found_squares, squares) < bound<Sum>());
  auto d = first;
  norm.gradient_sums(rows, channels, x.data(), rounded_mean.data(), out.data(), d.data(), second.data(),
                     found_sum.data(), found_dot.data());
  CHECK(difference(d, masked) < bound<Real>());
  CHECK(difference(found_sum, sum) < 4 * bound<Sum>());
  CHECK(difference(found_dot, dot) < 4 * bound<Sum>());

  const auto factors = drawn<Sum>(3 * width, 5);
  const Sum *by_g = factors.data(), *by_x = by_g + width, *constant = by_x + width;
  std::vector<double> y(count), d_x(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t c = i % width;
    y[i] = wide(by_g[c]) * wide(x[i]) + wide(by_x[c]) + wide(second[i]);
    if (y[i] < 0) y[i] = 0;
    d_x[i] = wide(by_g[c]) * wide(first[i]) + wide(by_x[c]) * (wide(x[i]) - wide(rounded_mean[c])) +
             wide(constant[c]);
  }
  std::vector<Real> found(count);
  norm.scale_and_shift(rows, channels, x.data(), by_g, by_x, second.data(), true, found.data());
  CHECK(difference(found, y) < bound<Real>());
  norm.gradient(rows, channels, x.data(), first.data(), rounded_mean.data(), by_g, by_x, constant,
                found.data());
  CHECK(difference(found, d_x) < bound<Real>());
}

}  // namespace

TEMPLATE_TEST_CASE("convolutions and their gradients agree with their definition", "[image compute]", double,
                   float, bfloat16) {
  const bool use_dnnl = GENERATE(true, false);
  cpu::CpuCompute<TestType> compute({2, use_dnnl, nullptr});
  for (const ConvolutionShape& shape : convolutions) check_convolution(shape, compute, *compute.images());
}

// Where oneDNN has fast convolutions of bfloat16, CpuCompute does not use these.
TEST_CASE("convolutions computed in float32 round the float32 results once", "[image compute]") {
  cpu::CpuCompute<float> compute({2, false, nullptr});
  cpu::UnfoldedConvolution<float> wide_convolution(compute);
  cpu::UpcastConvolution convolution(std::make_unique<cpu::UnfoldedConvolution<float>>(compute), 2);
  for (const ConvolutionShape& s : convolutions) {
    const auto batch = static_cast<std::size_t>(s.batch),
               in = batch * s.in_pixels() * static_cast<std::size_t>(s.in),
               out = batch * s.out_pixels() * static_cast<std::size_t>(s.out);
    const auto x = drawn<bfloat16>(in, 1), weight = drawn<bfloat16>(s.weights(), 2),
               d_out = drawn<bfloat16>(out, 3), bias = drawn<bfloat16>(static_cast<std::size_t>(s.out), 4);
    const auto widen = [](const std::vector<bfloat16>& from) {
      std::vector<float> to;
      for (const bfloat16 value : from) to.push_back(static_cast<float>(value));
      return to;
    };
    const auto check_rounded = [](const std::vector<bfloat16>& found, const std::vector<float>& expected) {
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < found.size(); ++i) wrong += found[i].bits != bfloat16(expected[i]).bits;
      CHECK(wrong == 0);
    };
    std::vector<bfloat16> y(out), d_x(in);
    std::vector<float> wide_y(out), wide_d_x(in), d_weight(s.weights()), wide_d_weight(s.weights()),
        d_bias(bias.size()), wide_d_bias(bias.size());
    convolution.forward(s, x.data(), weight.data(), bias.data(), y.data());
    wide_convolution.forward(s, widen(x).data(), widen(weight).data(), widen(bias).data(), wide_y.data());
    check_rounded(y, wide_y);
    convolution.backward_images(s, d_out.data(), weight.data(), d_x.data());
    wide_convolution.backward_images(s, widen(d_out).data(), widen(weight).data(), wide_d_x.data());
    check_rounded(d_x, wide_d_x);
    convolution.backward_weight(s, x.data(), d_out.data(), d_weight.data(), d_bias.data());
    wide_convolution.backward_weight(s, widen(x).data(), widen(d_out).data(), wide_d_weight.data(),
                                     wide_d_bias.data());
    CHECK((d_weight == wide_d_weight && d_bias == wide_d_bias));
  }
}

TEMPLATE_TEST_CASE("batch normalization agrees with its definition with every instruction set",
                   "[image compute]", double, float, bfloat16) {
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    const cpu::Kernels<TestType>* kernels = cpu::find_kernels<TestType>(set);
    if (kernels == nullptr) continue;
    CAPTURE(set);
    cpu::CpuBatchNorm<TestType> norm(2, *kernels);
    for (const int channels : {8, 10, 16, 40})
      for (const std::size_t rows : {std::size_t{1}, std::size_t{7}, std::size_t{2500}})
        check_batch_norm(norm, rows, channels);
  }
}

TEMPLATE_TEST_CASE("max pooling agrees with its definition with every instruction set", "[image compute]",
                   double, float, bfloat16) {
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    const cpu::Kernels<TestType>* kernels = cpu::find_kernels<TestType>(set);
    if (kernels == nullptr) continue;
    cpu::CpuCompute<TestType> compute({2, true, kernels});
    for (const PoolShape& s :
         {PoolShape{3, 6, 8, 10, 2, 2, 0}, PoolShape{2, 7, 5, 20, 3, 2, 1}, PoolShape{2, 5, 5, 64, 3, 2, 1},
          PoolShape{2, 4, 4, 1, 2, 2, 0}, PoolShape{2, 7, 5, 20, 2, 2, 0}, PoolShape{2, 6, 6, 3, 2, 1, 0},
          PoolShape{1, 1, 1, 16, 2, 2, 0}}) {
      CAPTURE(set, s.channels, s.window);
      const auto in = static_cast<std::size_t>(s.batch * s.height * s.width * s.channels),
                 out = static_cast<std::size_t>(s.batch * s.out_height() * s.out_width() * s.channels);
      const auto x = drawn<TestType>(in, 8), d_out = drawn<TestType>(out, 9);
      std::vector<double> y(out), d_x(in);
      for (int n = 0; n < s.batch; ++n)
        for (int top = 0; top < s.out_height(); ++top)
          for (int left = 0; left < s.out_width(); ++left)
            for (int c = 0; c < s.channels; ++c) {
              std::size_t best = in;
              for (int place = 0; place < s.window * s.window; ++place) {
                const int row = top * s.stride - s.padding + place / s.window,
                          column = left * s.stride - s.padding + place % s.window;
                if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
                const auto at =
                    static_cast<std::size_t>(((n * s.height + row) * s.width + column) * s.channels + c);
                if (best == in || wide(x[at]) > wide(x[best])) best = at;
              }
              const auto to = static_cast<std::size_t>(
                  ((n * s.out_height() + top) * s.out_width() + left) * s.channels + c);
              y[to] = wide(x[best]);
              d_x[best] += wide(d_out[to]);
            }
      std::vector<TestType> found(out), found_d_x(in, TestType(7));
      std::vector<std::uint8_t> places(out);
      compute.images()->max_pool(s, x.data(), found.data(), places.data());
      CHECK(difference(found, y) == 0);
      compute.images()->max_pool_backward(s, places.data(), d_out.data(), found_d_x.data());
      CHECK(difference(found_d_x, d_x) < bound<TestType>());
    }
  }
}

TEMPLATE_TEST_CASE("ReLU agrees with its definition with every instruction set", "[image compute]", double,
                   float, bfloat16) {
  constexpr int batch = 3;
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    const cpu::Kernels<TestType>* kernels = cpu::find_kernels<TestType>(set);
    if (kernels == nullptr) continue;
    cpu::CpuCompute<TestType> compute({2, true, kernels});
    for (const auto& [pixels, channels] :
         {std::pair{16, 20}, std::pair{1, 50}, std::pair{9, 3}, std::pair{5, 32}}) {
      const auto images = static_cast<std::size_t>(batch),
                 per_image = static_cast<std::size_t>(pixels * channels);
      const auto x = drawn<TestType>(images * per_image, 10), d_out = drawn<TestType>(images * per_image, 11);
      std::vector<TestType> factor(images * static_cast<std::size_t>(channels));
      for (std::size_t i = 0; i < factor.size(); ++i) factor[i] = TestType(i % 3 == 0 ? 0.0f : 1.5f);
      for (const bool has_factor : {false, true}) {
        CAPTURE(set, pixels, channels, has_factor);
        std::vector<double> y(x.size()), d_x(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t plane =
              i / per_image * static_cast<std::size_t>(channels) + i % static_cast<std::size_t>(channels);
          const double by = has_factor ? wide(factor[plane]) : 1;
          y[i] = std::max(0.0, by * wide(x[i]));
          d_x[i] = y[i] > 0 ? by * wide(d_out[i]) : 0;
        }
        std::vector<TestType> found(x.size(), TestType(7)), found_d_x(x.size(), TestType(7));
        const TestType* factors = has_factor ? factor.data() : nullptr;
        compute.images()->relu(batch, static_cast<std::size_t>(pixels), channels, x.data(), factors,
                               found.data());
        CHECK(difference(found, y) < bound<TestType>());
        compute.images()->relu_backward(batch, static_cast<std::size_t>(pixels), channels, found.data(),
                                        factors, d_out.data(), found_d_x.data());
        CHECK(difference(found_d_x, d_x) < bound<TestType>());
      }
    }
  }
}

TEST_CASE("the moments of a batch have the same bits for any number of threads", "[image compute]") {
  const auto x = drawn<float>(5000 * 16, 6);
  std::vector<double> moments[3];
  for (const int threads : {1, 2, 3}) {
    cpu::CpuBatchNorm<float> norm(threads, cpu::kernels<float>());
    auto& found = moments[threads - 1];
    found.resize(32);
    norm.moments(5000, 16, x.data(), found.data(), found.data() + 16);
  }
  CHECK(moments[0] == moments[1]);
  CHECK(moments[0] == moments[2]);
}

TEST_CASE("a variance is exact beside a large mean", "[image compute]") {
  const auto offsets = drawn<float>(4096, 7);
  std::vector<float> x;
  double mean = 0, squares = 0;
  for (const float offset : offsets) x.push_back(1000 + offset);
  for (const float value : x) mean += double{value} / 4096;
  for (const float value : x) squares += (double{value} - mean) * (double{value} - mean);
  cpu::CpuBatchNorm<float> norm(1, cpu::kernels<float>());
  double found_mean = 0, found_squares = 0;
  norm.moments(4096, 1, x.data(), &found_mean, &found_squares);
  CHECK(found_mean == Approx(mean).epsilon(1e-7));
  CHECK(found_squares == Approx(squares).epsilon(1e-4));
}

TEST_CASE("ReLU and max pooling keep NaN", "[image compute]") {
  cpu::CpuCompute<float> compute({1, true, nullptr});
  std::vector<float> x(16 * 16, -1.0f), out(16 * 16);
  x[35] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> one(16, 1.0f), zero(16, 0.0f);
  cpu::CpuBatchNorm<float> norm(1, cpu::kernels<float>());
  norm.scale_and_shift(16, 16, x.data(), one.data(), zero.data(), nullptr, true, out.data());
  CHECK(std::isnan(out[35]));
  CHECK(out[36] == 0);
  std::vector<std::uint8_t> places(64);
  compute.images()->max_pool({1, 4, 4, 16}, x.data(), out.data(), places.data());
  CHECK(std::isnan(out[16 + 3]));  // the second window
}

TEST_CASE("dropout's factors come before ReLU, and images are flattened channel by channel",
          "[image compute]") {
  cpu::CpuCompute<float> compute({1, true, nullptr});
  auto& images = *compute.images();
  const std::vector<float> x{1, -2, 3, 4, 5, 6, -7, 8}, factor{2, 0, 0, 2}, ones(8, 1.0f);
  std::vector<float> out(8), d_x(8);
  images.relu(2, 2, 2, x.data(), factor.data(), out.data());
  CHECK(out == std::vector<float>{2, 0, 6, 0, 0, 12, 0, 16});
  images.relu_backward(2, 2, 2, out.data(), factor.data(), ones.data(), d_x.data());
  CHECK(d_x == std::vector<float>{2, 0, 2, 0, 0, 2, 0, 2});
  images.relu(2, 2, 2, x.data(), nullptr, out.data());
  CHECK(out == std::vector<float>{1, 0, 3, 4, 5, 6, 0, 8});
  images.relu_backward(2, 2, 2, out.data(), nullptr, ones.data(), d_x.data());
  CHECK(d_x == std::vector<float>{1, 0, 1, 1, 1, 1, 0, 1});
  images.flatten(2, 2, 2, x.data(), false, out.data());
  CHECK(out == std::vector<float>{1, 3, -2, 4, 5, -7, 6, 8});
  images.flatten(2, 2, 2, out.data(), true, d_x.data());
  CHECK(d_x == x);
}

TEST_CASE("an image is right when its label has the largest of all logits, the first of equal ones",
          "[image compute]") {
  cpu::CpuCompute<float> compute({1, true, nullptr});
  const float logits[] = {0, 1, 2, 2, 1, 0, 3, 3, 0};
  for (const auto& [labels, right] :
       {std::pair{std::array<Token, 3>{2, 0, 0}, 3}, std::pair{std::array<Token, 3>{2, 1, 1}, 1},
        std::pair{std::array<Token, 3>{0, 2, 2}, 0}, std::pair{std::array<Token, 3>{1, 0, 1}, 1}})
    CHECK(compute.images()->count_correct(logits, labels.data(), 3, 3) == right);
}

TEST_CASE("pooling and the shortcut agree with their definition", "[image compute]") {
  cpu::CpuCompute<double> compute({2, true, nullptr});
  auto& images = *compute.images();
  // Windows of 3 with stride 2 overlap, so a pixel may be the largest of several.
  const std::vector<double> x{1, 9, 2, 3, 4, 5, 6, 7, 8, 0, 9, 9, 1, 2, 3, 4};
  std::vector<double> out(4), d_x(16);
  std::vector<std::uint8_t> places(4);
  images.max_pool({1, 4, 4, 1, 3, 2, 1}, x.data(), out.data(), places.data());
  CHECK(out == std::vector<double>{9, 9, 8, 9});
  const std::vector<double> d_out{1, 2, 4, 8};
  images.max_pool_backward({1, 4, 4, 1, 3, 2, 1}, places.data(), d_out.data(), d_x.data());
  CHECK(d_x == std::vector<double>{0, 3, 0, 0, 0, 0, 0, 0, 4, 0, 8, 0, 0, 0, 0, 0});
  std::vector<double> mean(2);
  images.mean_pool(1, 2, 2, x.data(), mean.data());
  CHECK(mean == std::vector<double>{1.5, 6});
  images.mean_pool_backward(1, 2, 2, mean.data(), out.data());
  CHECK(out == std::vector<double>{0.75, 3, 0.75, 3});
  // 3 x 3 pixels of one channel to 2 x 2 pixels of four: one zero channel in front and two behind.
  std::vector<double> wide(16), back(9);
  images.shortcut(1, 3, 3, 1, 4, x.data(), wide.data());
  CHECK(wide == std::vector<double>{0, 1, 0, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0, 8, 0, 0});
  images.shortcut_backward(1, 3, 3, 1, 4, wide.data(), back.data());
  CHECK(back == std::vector<double>{1, 0, 2, 0, 0, 0, 6, 0, 8});
}
