// SPDX-License-Identifier: Apache-2.0
// The kernels of batch normalization over several ranks on the fake GPU, against the CPU's in double.
#include <array>

#include "compute/cuda/kernels/batch_norm.cuh"
#include "compute/cuda/kernels/launch_sizes.hpp"
#include "compute/image_compute.hpp"
#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;
using namespace muster::compute::cuda;
using muster::compute::batch_norm_epsilon;

static_assert(sizes::element_threads == element_threads);

namespace {

/// Fewer than on a GPU: the race finder takes a millisecond for each.
constexpr unsigned few_threads = 64;
constexpr unsigned parts = 3;
constexpr double share = 0.25, in_float = 1e-5;

/// One rank's rows, and what it has of the ranks' results.
struct Rank {
  std::size_t rows, channels;
  unsigned threads;
  std::vector<Bf16> x, g;
  std::vector<double> sums;
  std::vector<float> d_gain, d_bias;

  Rank(std::size_t of_rows, std::size_t of_channels, std::uint64_t stream, unsigned of_block = few_threads)
      : rows(of_rows),
        channels(of_channels),
        threads(of_block),
        x(random_bf16(rows * channels, stream)),
        g(random_bf16(rows * channels, stream + 1)),
        sums(1 + 2 * channels),
        d_gain(channels),
        d_bias(channels) {
    // Far from zero, where a difference of squares in float would lose the variance.
    for (std::size_t i = 0; i < x.size(); i += 2) x[i] = rounded(300 + 4 * exact(x[i]));
  }
  Launch of_rows() const { return {{blocks_of(threads), parts}, threads, 2 * threads * sizeof(float)}; }
  Launch of_sums() const { return {{blocks_of(warp_size)}, threads, 2 * threads * sizeof(double)}; }
  unsigned blocks_of(unsigned of_block) const {
    return (static_cast<unsigned>(channels) + of_block - 1) / of_block;
  }

  void add_up() {
    std::vector<double> partial(parts * 2 * channels);
    run(muster_norm_parts, of_rows(), rows, channels, x.data(), partial);
    run(muster_norm_sums, of_sums(), int{parts}, rows, channels, x.data(), partial.data(), sums);
  }
  void add_up_gradients(const std::vector<float>& mean, const std::vector<float>& rstd) {
    std::vector<double> partial(parts * 2 * channels);
    run(muster_norm_gradient_parts, of_rows(), rows, channels, x.data(), mean.data(), g.data(), partial);
    run(muster_norm_gradient_sums, of_sums(), int{parts}, rows, channels, rstd.data(), partial.data(), d_gain,
        d_bias, sums);
  }
};

template <typename Number>
std::vector<Number> joined(std::vector<Number> one, const std::vector<Number>& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}
std::vector<double> added(const std::vector<double>& one, const std::vector<double>& other) {
  auto sum = one;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  return sum;
}
template <typename Number>
bool is_near(const std::vector<Number>& found, const std::vector<double>& expected, double scale,
             double least) {
  return worst_ratio(found, expected, bounds(expected, scale, least)) < 1;
}

/// The CPU's results for the rows of all ranks.
struct Expected {
  std::vector<double> x, g, d_x, mean, rstd, batch_mean, batch_variance, d_gain, d_bias;

  Expected(const std::vector<Bf16>& all_x, const std::vector<Bf16>& all_g, const std::vector<float>& gain)
      : x(exact(all_x)), g(exact(all_g)), d_x(x.size()) {
    const std::size_t channels = gain.size();
    for (auto* each : {&mean, &rstd, &batch_mean, &batch_variance, &d_gain, &d_bias}) each->resize(channels);
    muster::compute::cpu::CpuCompute<double> compute{{1, false, nullptr}};
    const std::vector<double> by = exact(gain), zeros(channels);
    std::vector<double> out(x.size());
    const muster::compute::BatchNorm<double> norm{.batch = static_cast<int>(x.size() / channels),
                                                  .pixels = 1,
                                                  .channels = static_cast<int>(channels),
                                                  .x = x.data(),
                                                  .gain = by.data(),
                                                  .bias = zeros.data(),
                                                  .out = out.data(),
                                                  .mean = mean.data(),
                                                  .rstd = rstd.data()};
    compute.images()->normalize(norm, batch_mean.data(), batch_variance.data(), share);
    compute.images()->normalize_backward(norm, g.data(), nullptr, d_x.data(), d_gain.data(), d_bias.data());
  }
};

void check_two_ranks(std::size_t channels, std::size_t rows, std::size_t other_rows,
                     unsigned threads = few_threads) {
  CAPTURE(channels, rows, other_rows, threads);
  std::array ranks{Rank(rows, channels, 1, threads), Rank(other_rows, channels, 3, threads)};
  const auto gain = random_floats(channels, 5);
  const Expected expected(joined(ranks[0].x, ranks[1].x), joined(ranks[0].g, ranks[1].g), gain);
  for (Rank& each : ranks) each.add_up();
  const auto sums = added(ranks[0].sums, ranks[1].sums);
  REQUIRE(sums[0] == static_cast<double>(rows + other_rows));
  std::vector<float> mean(channels), variance(channels), rstd(channels), batch_mean(channels),
      batch_variance(channels);
  run(muster_norm_statistics, {{2}, threads, 0}, channels, sums.data(), batch_norm_epsilon, share, mean,
      variance, rstd, batch_mean, batch_variance);
  CHECK(is_near(mean, expected.mean, in_float, in_float));
  CHECK(is_near(rstd, expected.rstd, in_float, 0));
  CHECK(is_near(batch_mean, expected.batch_mean, in_float, in_float));
  CHECK(is_near(batch_variance, expected.batch_variance, in_float, in_float));
  std::vector<double> biased;
  for (const double scale : expected.rstd) biased.push_back(1 / (scale * scale) - batch_norm_epsilon);
  CHECK(is_near(variance, biased, in_float, in_float));

  for (Rank& each : ranks) each.add_up_gradients(mean, rstd);
  const auto gradient_sums = added(ranks[0].sums, ranks[1].sums);
  CHECK(is_near(added(exact(ranks[0].d_gain), exact(ranks[1].d_gain)), expected.d_gain, 1e-4, 1e-4));
  CHECK(is_near(added(exact(ranks[0].d_bias), exact(ranks[1].d_bias)), expected.d_bias, 1e-4, 1e-4));
  std::vector<Bf16> d_x;
  for (Rank& each : ranks) {
    std::vector<Bf16> part(each.x.size());
    run(muster_norm_backward, each.of_rows(), each.rows, channels, each.x.data(), each.g.data(), mean.data(),
        rstd.data(), gain.data(), gradient_sums.data(), part);
    d_x = joined(d_x, part);
  }
  CHECK(is_near(d_x, expected.d_x, 1.01 * half_unit, 1e-3));
}

}  // namespace

TEST_CASE("two ranks' batches are normalized as one", "[gpu kernels]") {
  check_two_ranks(16, 40, 40);
  // Neither a multiple of 8 nor of the threads: a row is longer than a block, or not a divisor of its
  // threads.
  check_two_ranks(3, 70, 1);
  check_two_ranks(67, 9, 14);
  check_two_ranks(1, 130, 7);
}

TEST_CASE("two ranks' batches are normalized as one by blocks as large as on a GPU", "[gpu kernels]") {
  check_two_ranks(35, 50, 9, element_threads);
}

TEST_CASE("batch normalization of one row has no variance", "[gpu kernels]") {
  Rank one(1, 5, 1);
  one.add_up();
  std::vector<float> mean(5), variance(5), rstd(5), batch_mean(5), batch_variance(5);
  run(muster_norm_statistics, {{1}, few_threads, 0}, std::size_t{5}, one.sums.data(), batch_norm_epsilon, 1.0,
      mean, variance, rstd, batch_mean, batch_variance);
  CHECK(exact(mean) == exact(one.x));
  CHECK(variance == std::vector<float>(5));
  CHECK(batch_variance == std::vector<float>(5));
}

TEST_CASE("parts of a batch cover its rows, and are few enough to fill a GPU once", "[gpu kernels]") {
  for (const std::size_t channels : {1, 16, 255, 256, 257, 2048, 1 << 20}) {
    for (const std::size_t rows : {1, 100, 1 << 22}) {
      CAPTURE(channels, rows);
      const std::size_t count = sizes::batch_norm_parts(rows, channels),
                        blocks = sizes::channel_blocks(channels);
      CHECK(count >= 1);
      CHECK((count == 1 || count * blocks <= 1024));
      CHECK(blocks * element_threads >= channels);
    }
  }
  CHECK(sizes::batch_norm_parts(100, 16) == 1);
  CHECK(sizes::batch_norm_parts(1 << 22, 64) == 1024);
}
