// SPDX-License-Identifier: Apache-2.0
// The kernels of networks on images on the fake GPU, against the CPU's operations in double.
#include <limits>

#include "compute/cuda/kernels/image.cuh"
#include "compute/cuda/kernels/launch_sizes.hpp"
#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;
using namespace muster::compute::cuda;
using muster::compute::PoolShape;

static_assert(sizes::element_threads == element_threads);

namespace {

/// Fewer threads than on a GPU: the race finder takes a millisecond for each.
const Launch two_blocks{{2}, 64, warps_bytes};

struct CpuImages {
  muster::compute::cpu::CpuCompute<double> compute{{1, false, nullptr}};
  muster::compute::ImageCompute<double>& images = *compute.images();
};

/// Whether each value is the expected one, rounded once.
template <typename Number>
bool is_rounded(const std::vector<Number>& found, const std::vector<double>& expected) {
  return found.size() == expected.size() &&
         worst_ratio(found, expected, bounds(expected, 1.01 * half_unit, 1e-6)) < 1;
}

PoolSizes to_sizes(const PoolShape& s) {
  return {s.height, s.width, s.channels, s.window, s.stride, s.padding, s.out_height(), s.out_width()};
}

/// Many equal numbers and zeros, which pooling has to tell apart by their places.
std::vector<Bf16> coarse(std::size_t count, std::uint64_t stream) {
  auto numbers = random_bf16(count, stream);
  for (Bf16& number : numbers) number = rounded(std::round(exact(number)));
  return numbers;
}

}  // namespace

TEST_CASE("a sum with ReLU and its gradient", "[gpu kernels]") {
  const std::size_t count = GENERATE(648, 643), padded = 648;
  // Threads write eight elements at a time, and what lies behind the last eight belongs to another array.
  const std::vector<Bf16> behind = random_bf16(8, 5);
  auto x = random_bf16(padded, 1);
  const auto addend = random_bf16(padded, 2), d_out = random_bf16(padded, 3), d_also = random_bf16(padded, 4);
  x[5] = narrow(std::numeric_limits<float>::quiet_NaN());
  for (const bool rectify : {false, true}) {
    for (const bool add : {false, true}) {
      CAPTURE(count, rectify, add);
      std::vector<Bf16> out(padded), d_x(padded);
      out.insert(out.end(), behind.begin(), behind.end());
      d_x.insert(d_x.end(), behind.begin(), behind.end());
      run(muster_add_relu, two_blocks, count, x.data(), add ? addend.data() : nullptr, rectify ? 1 : 0, out);
      run(muster_add_relu_backward, two_blocks, count, rectify ? out.data() : nullptr, d_out.data(),
          add ? d_also.data() : nullptr, d_x);
      CHECK(same_bits(std::vector(out.begin() + padded, out.end()), behind));
      CHECK(same_bits(std::vector(d_x.begin() + padded, d_x.end()), behind));
      out.resize(count), d_x.resize(count);
      std::vector<double> sum(count), d(count);
      CHECK(std::isnan(exact(out[5])));
      out[5] = x[0], d_x[5] = rounded(0);
      for (std::size_t i = 0; i < count; ++i) {
        sum[i] = i == 5 ? exact(x[0]) : exact(x[i]) + (add ? exact(addend[i]) : 0);
        if (rectify && i != 5 && sum[i] < 0) sum[i] = 0;
        d[i] = i == 5 || (rectify && sum[i] <= 0) ? 0 : exact(d_out[i]) + (add ? exact(d_also[i]) : 0);
      }
      CHECK(is_rounded(out, sum));
      CHECK(is_rounded(d_x, d));
    }
  }
}

TEST_CASE("dropout's factors, biases and their gradients", "[gpu kernels]") {
  CpuImages cpu;
  const std::size_t pixels = 6, channels = 10, count = 3 * pixels * channels;
  const auto x = random_bf16(count, 1), d_out = random_bf16(count, 2), bias = random_bf16(channels, 3);
  auto factor = coarse(3 * channels, 4);
  for (Bf16& each : factor) each = rounded(std::abs(exact(each)));
  std::vector<Bf16> out(count), d_x(count);
  std::vector<double> expected(count), d_expected(count);
  run(muster_scale_relu, two_blocks, count, pixels, channels, x.data(), factor.data(), out);
  run(muster_scale_relu_backward, two_blocks, count, pixels, channels, out.data(), factor.data(),
      d_out.data(), d_x);
  cpu.images.relu(3, pixels, channels, exact(x).data(), exact(factor).data(), expected.data());
  cpu.images.relu_backward(3, pixels, channels, exact(out).data(), exact(factor).data(), exact(d_out).data(),
                           d_expected.data());
  CHECK(is_rounded(out, expected));
  CHECK(is_rounded(d_x, d_expected));

  auto biased = x;
  run(muster_add_bias, two_blocks, count, channels, bias.data(), biased);
  std::vector<float> sums(channels);
  run(muster_channel_sums, {{channels}, 64, warps_bytes}, count / channels, channels, d_out.data(), sums);
  std::vector<double> exact_sums(channels);
  for (std::size_t i = 0; i < count; ++i) {
    expected[i] = exact(x[i]) + exact(bias[i % channels]);
    exact_sums[i % channels] += exact(d_out[i]);
  }
  CHECK(is_rounded(biased, expected));
  CHECK(worst_ratio(sums, exact_sums, bounds(exact_sums, 1e-6, 1e-5)) < 1);
}

TEST_CASE("images and weights are transposed, and rows padded", "[gpu kernels]") {
  CpuImages cpu;
  const std::size_t pixels = 9, channels = 10, count = 7 * pixels * channels;
  const auto x = random_bf16(count, 1);
  std::vector<Bf16> flat(count), back(count);
  std::vector<float> wide(count);
  std::vector<double> expected(count);
  run(muster_transpose, two_blocks, count, pixels, channels, x.data(), flat);
  run(muster_transpose_to_float, two_blocks, count, pixels, channels, x.data(), wide);
  run(muster_transpose, two_blocks, count, channels, pixels, flat.data(), back);
  cpu.images.flatten(7, pixels, channels, exact(x).data(), false, expected.data());
  CHECK(exact(flat) == expected);
  CHECK(exact(wide) == expected);
  CHECK(same_bits(back, x));

  const std::size_t rows = 9;
  std::vector<Bf16> padded(rows * 16), cut(rows * channels);
  run(muster_copy_rows, two_blocks, padded.size(), channels, std::size_t{16}, x.data(), padded);
  run(muster_copy_rows, two_blocks, cut.size(), std::size_t{16}, channels, padded.data(), cut);
  CHECK(std::memcmp(cut.data(), x.data(), cut.size() * sizeof(Bf16)) == 0);
  for (std::size_t i = 0; i < padded.size(); ++i) {
    if (i % 16 >= channels) REQUIRE(padded[i].bits == 0);
  }
}

TEST_CASE("max pooling takes the CPU's places, and gives them the gradient", "[gpu kernels]") {
  CpuImages cpu;
  for (const PoolShape& s : {PoolShape{2, 6, 8, 10, 2, 2, 0}, PoolShape{2, 7, 5, 3, 3, 2, 1}}) {
    CAPTURE(s.window);
    const auto in = static_cast<std::size_t>(s.batch * s.height * s.width * s.channels),
               out = static_cast<std::size_t>(s.batch * s.out_height() * s.out_width() * s.channels);
    auto x = coarse(in, 1);
    const auto d_out = random_bf16(out, 2);
    x[7] = narrow(std::numeric_limits<float>::quiet_NaN());
    std::vector<Bf16> found(out), d_found(in);
    std::vector<std::uint8_t> places(out), expected_places(out);
    std::vector<double> expected(out), d_expected(in);
    run(muster_max_pool, two_blocks, out, to_sizes(s), x.data(), found, places);
    run(muster_max_pool_backward, two_blocks, in, to_sizes(s), places.data(), d_out.data(), d_found);
    cpu.images.max_pool(s, exact(x).data(), expected.data(), expected_places.data());
    cpu.images.max_pool_backward(s, expected_places.data(), exact(d_out).data(), d_expected.data());
    CHECK(places == expected_places);
    for (std::size_t i = 0; i < out; ++i)
      REQUIRE((exact(found[i]) == expected[i] || (std::isnan(exact(found[i])) && std::isnan(expected[i]))));
    CHECK(is_rounded(d_found, d_expected));
  }
}

TEST_CASE("the mean of pixels, and shortcuts over every second one", "[gpu kernels]") {
  CpuImages cpu;
  const int batch = 2, height = 5, width = 4, channels = 6, out_channels = 11;
  const std::size_t pixels = 20, count = 2 * pixels * 6, means = 12, small = 2 * 6 * 11;
  const auto x = random_bf16(count, 1), d_mean = random_bf16(means, 2), d_small = random_bf16(small, 3);
  std::vector<Bf16> mean(means), d_x(count), out(small);
  std::vector<double> expected(means), d_expected(count), expected_out(small);
  run(muster_mean_pool, two_blocks, means, pixels, std::size_t{6}, x.data(), mean);
  run(muster_mean_pool_backward, two_blocks, count, pixels, std::size_t{6}, d_mean.data(), d_x);
  cpu.images.mean_pool(batch, pixels, channels, exact(x).data(), expected.data());
  cpu.images.mean_pool_backward(batch, pixels, channels, exact(d_mean).data(), d_expected.data());
  CHECK(is_rounded(mean, expected));
  CHECK(is_rounded(d_x, d_expected));

  const ShortcutSizes s{height, width, channels, out_channels, (out_channels - channels) / 2};
  run(muster_shortcut, two_blocks, small, s, x.data(), out);
  run(muster_shortcut_backward, two_blocks, count, s, d_small.data(), d_x);
  cpu.images.shortcut(batch, height, width, channels, out_channels, exact(x).data(), expected_out.data());
  cpu.images.shortcut_backward(batch, height, width, channels, out_channels, exact(d_small).data(),
                               d_expected.data());
  CHECK(exact(out) == expected_out);
  CHECK(exact(d_x) == d_expected);
}

TEST_CASE("correct rows are counted, the first of equal logits", "[gpu kernels]") {
  CpuImages cpu;
  const int rows = 300, classes = 7;
  const auto logits = coarse(rows * classes, 1);
  std::vector<std::uint32_t> targets(rows);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<std::uint32_t>(i % 3);
  double found = 0;
  run(muster_count_correct, {{1}, 64, warps_bytes}, rows, classes, logits.data(), targets.data(),
      std::span(&found, 1));
  const auto expected = cpu.images.count_correct(exact(logits).data(), targets.data(), rows, classes);
  CHECK(found == static_cast<double>(expected));
  CHECK(expected > 0);
  CHECK(expected < rows);
}
