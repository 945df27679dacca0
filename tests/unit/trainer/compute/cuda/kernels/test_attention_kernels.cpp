// SPDX-License-Identifier: Apache-2.0
// The attention kernels on the fake GPU, against the CPU's attention in double.
#include <algorithm>
#include <limits>

#include "compute/cuda/kernels/attention_backward.cuh"
#include "compute/cuda/kernels/attention_forward.cuh"
#include "compute/cuda/kernels/launch_sizes.hpp"
#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;
using namespace muster::compute::cuda;
using muster::compute::AttentionShape;

// The host's launch geometry must match the kernels'.
static_assert(sizes::attention_threads == attention_threads);
static_assert(sizes::tile_rows == tile_rows);
// GPUs of compute capability 8.6 and 12.0 have the least shared memory for a block (CUDA C++ Programming
// Guide, table "Technical Specifications per Compute Capability").
constexpr std::size_t least_shared_memory = 99 << 10;
template <int width>
constexpr bool has_right_sizes =
    sizes::is_head_width(width) &&
    sizes::query_rows(width) == query_rows<width>&& sizes::attention_forward_bytes(width) ==
        attention_forward_bytes<width>&& sizes::attention_queries_bytes(width) ==
        attention_queries_bytes<width>&& sizes::attention_keys_bytes(width) ==
        attention_keys_bytes<width>&& attention_forward_bytes<width> <=
            least_shared_memory&& attention_keys_bytes<width> <= least_shared_memory;
static_assert(has_right_sizes<32> && has_right_sizes<64> && has_right_sizes<96> && has_right_sizes<128>);

namespace {

unsigned blocks(int count, int each) { return static_cast<unsigned>((count + each - 1) / each); }

struct Sizes {
  int batch, length, heads;
  int group = 1;  ///< heads of queries for each of keys and values
  int head_width = 64;
  std::size_t rows() const { return static_cast<std::size_t>(batch) * static_cast<std::size_t>(length); }
  std::size_t width() const { return static_cast<std::size_t>(heads * head_width); }
  std::size_t sums() const { return rows() * static_cast<std::size_t>(heads); }
  std::size_t qkv_width() const { return width() + 2 * width() / static_cast<std::size_t>(group); }
  AttentionShape shape() const { return {batch, length, heads, heads * head_width, heads / group}; }
  Launch launch(int each, std::size_t bytes, bool reverse_order, bool of_keys = false) const {
    const auto columns = static_cast<unsigned>(of_keys ? heads / group : heads);
    return {{blocks(length, each), columns, static_cast<unsigned>(batch)},
            attention_threads,
            bytes,
            reverse_order};
  }
};

struct Kernels {
  decltype(&muster_attention_64) forward;
  decltype(&muster_attention_queries_backward_64) queries_backward;
  decltype(&muster_attention_keys_backward_64) keys_backward;
};
Kernels kernels_for(int head_width) {
  switch (head_width) {
    case 32:
      return {muster_attention_32, muster_attention_queries_backward_32, muster_attention_keys_backward_32};
    case 64:
      return {muster_attention_64, muster_attention_queries_backward_64, muster_attention_keys_backward_64};
    case 96:
      return {muster_attention_96, muster_attention_queries_backward_96, muster_attention_keys_backward_96};
    default:
      return {muster_attention_128, muster_attention_queries_backward_128,
              muster_attention_keys_backward_128};
  }
}

struct Forward {
  std::vector<Bf16> out;
  std::vector<float> log_sum;
};
Forward forward(const Sizes& s, const std::vector<Bf16>& qkv, bool reverse_order = false) {
  Forward result{std::vector<Bf16>(s.rows() * s.width()), std::vector<float>(s.sums())};
  run(kernels_for(s.head_width).forward,
      s.launch(sizes::query_rows(s.head_width), sizes::attention_forward_bytes(s.head_width), reverse_order),
      s.length, s.group, qkv.data(), result.out, result.log_sum);
  return result;
}

std::vector<Bf16> backward(const Sizes& s, const std::vector<Bf16>& qkv, const Forward& saved,
                           const std::vector<Bf16>& d_out, bool reverse_order = false) {
  std::vector<Bf16> d_qkv(qkv.size(), rounded(777));
  std::vector<float> dots(s.sums());
  const Kernels kernels = kernels_for(s.head_width);
  run(kernels.queries_backward,
      s.launch(tile_rows, sizes::attention_queries_bytes(s.head_width), reverse_order), s.length, s.group,
      qkv.data(), saved.out.data(), saved.log_sum.data(), d_out.data(), d_qkv, dots);
  run(kernels.keys_backward,
      s.launch(tile_rows, sizes::attention_keys_bytes(s.head_width), reverse_order, true), s.length, s.group,
      qkv.data(), saved.log_sum.data(), d_out.data(), dots.data(), d_qkv);
  return d_qkv;
}

struct Exact {
  std::vector<double> out, log_sum;
};
Exact exact_forward(const Sizes& s, const std::vector<double>& qkv) {
  muster::compute::cpu::CpuCompute<double> cpu({1, false, nullptr});
  Exact result{std::vector<double>(s.rows() * s.width()), std::vector<double>(s.sums())};
  cpu.attention(s.shape(), qkv.data(), result.out.data(), result.log_sum.data());
  return result;
}

/// For every element of d_qkv, the sum of the magnitudes of its terms, where weights and d scores are
/// rounded.
std::vector<double> gradient_magnitudes(const Sizes& s, const std::vector<double>& qkv,
                                        const std::vector<double>& out, const std::vector<double>& log_sum,
                                        const std::vector<double>& d_out) {
  std::vector<double> sizes(qkv.size());
  const std::size_t width = s.width(), length = static_cast<std::size_t>(s.length),
                    head_width = static_cast<std::size_t>(s.head_width);
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_width));
  for (std::size_t task = 0; task < s.sums() / length; ++task) {
    const std::size_t first = task / static_cast<std::size_t>(s.heads) * length;
    const std::size_t head = task % static_cast<std::size_t>(s.heads), column = head * head_width;
    const std::size_t group = static_cast<std::size_t>(s.group), kv_column = head / group * head_width;
    for (std::size_t i = 0; i < length; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        const std::size_t query = (first + i) * s.qkv_width() + column, row = (first + i) * width + column;
        const std::size_t key = (first + j) * s.qkv_width() + width + kv_column, value = key + width / group;
        double score = 0, d_weight = 0, dot = 0;
        for (std::size_t d = 0; d < head_width; ++d) {
          score += qkv[query + d] * qkv[key + d];
          d_weight += d_out[row + d] * qkv[value + d];
          dot += d_out[row + d] * out[row + d];
        }
        const double weight = std::exp(score * scale - log_sum[task * length + i]);
        const double d_score = std::abs(weight * (d_weight - dot)) * scale + 1e-4 * weight;
        for (std::size_t d = 0; d < head_width; ++d) {
          sizes[query + d] += d_score * std::abs(qkv[key + d]);
          sizes[key + d] += d_score * std::abs(qkv[query + d]);
          sizes[value + d] += weight * std::abs(d_out[row + d]);
        }
      }
    }
  }
  return sizes;
}

std::vector<Bf16> random_qkv(const Sizes& s, double spread = 1.5) {
  return random_bf16(s.rows() * s.qkv_width(), 1, spread);
}

const std::vector<Sizes> all_sizes{{1, 1, 1},         {2, 64, 1},        {1, 65, 2},     {1, 131, 1},
                                   {1, 200, 1},       {1, 70, 4, 2},     {2, 140, 3, 3}, {1, 66, 2, 2, 32},
                                   {1, 66, 2, 2, 96}, {1, 66, 2, 2, 128}};

}  // namespace

TEST_CASE("attention agrees with the CPU's in double, whatever the length", "[gpu kernels]") {
  for (const Sizes& s : all_sizes) {
    CAPTURE(s.batch, s.length, s.heads, s.group, s.head_width);
    const auto qkv = random_qkv(s);
    const Forward found = forward(s, qkv);
    const auto inputs = exact(qkv);
    const Exact expected = exact_forward(s, inputs);
    // Weights and results are rounded once: the error is half a unit of the sum of |weight * value|, twice.
    auto positive = inputs;
    for (std::size_t i = 0; i < positive.size(); ++i) {
      if (i % s.qkv_width() >= s.width() + s.width() / static_cast<std::size_t>(s.group))
        positive[i] = std::abs(positive[i]);
    }
    CHECK(worst_ratio(found.out, expected.out,
                      bounds(exact_forward(s, positive).out, 2.05 * half_unit, 1e-6)) < 1);
    CHECK(worst_ratio(found.log_sum, expected.log_sum, bounds(expected.log_sum, 1e-5, 1e-5)) < 1);
  }
}

TEST_CASE("gradients of attention agree with the CPU's in double", "[gpu kernels]") {
  for (const Sizes& s : all_sizes) {
    CAPTURE(s.batch, s.length, s.heads, s.group, s.head_width);
    const auto qkv = random_qkv(s);
    const auto d_out = random_bf16(s.rows() * s.width(), 2);
    const Forward saved = forward(s, qkv);
    const auto found = backward(s, qkv, saved, d_out);
    const auto inputs = exact(qkv), out = exact(saved.out), log_sum = exact(saved.log_sum), d = exact(d_out);
    muster::compute::cpu::CpuCompute<double> cpu({1, false, nullptr});
    std::vector<double> expected(inputs.size());
    cpu.attention_backward(s.shape(), inputs.data(), out.data(), log_sum.data(), d.data(), expected.data());
    const auto sizes = gradient_magnitudes(s, inputs, out, log_sum, d);
    CHECK(worst_ratio(found, expected, bounds(sizes, 2.05 * half_unit, 1e-6)) < 1);
  }
}

TEST_CASE("the order of threads does not change attention", "[gpu kernels]") {
  const Sizes s{1, 70, 2, GENERATE(1, 2)};
  const auto qkv = random_qkv(s);
  const auto d_out = random_bf16(s.rows() * s.width(), 2);
  const Forward one = forward(s, qkv), other = forward(s, qkv, true);
  CHECK(same_bits(one.out, other.out));
  CHECK(same_bits(one.log_sum, other.log_sum));
  CHECK(same_bits(backward(s, qkv, one, d_out), backward(s, qkv, one, d_out, true)));
}

TEST_CASE("attention with scores far apart stays finite", "[gpu kernels]") {
  const Sizes s{1, 66, 1};
  const auto qkv = random_qkv(s, 30);  // scores of several thousand
  const Forward found = forward(s, qkv);
  const Exact expected = exact_forward(s, exact(qkv));
  CHECK(worst_ratio(found.log_sum, expected.log_sum, bounds(expected.log_sum, 1e-5, 1e-3)) < 1);
  const auto d_out = random_bf16(s.rows() * s.width(), 2);
  for (const Bf16 gradient : backward(s, qkv, found, d_out)) CHECK(std::isfinite(widen(gradient)));
}

TEST_CASE("when a query is NaN, only its own row becomes NaN", "[gpu kernels]") {
  const Sizes s{1, 80, 1};
  auto qkv = random_qkv(s);
  const Forward whole = forward(s, qkv);
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    qkv[70 * 3 * s.width() + 5] = rounded(bad);
    const Forward found = forward(s, qkv);
    for (std::size_t i = 0; i < found.out.size(); ++i) {
      if (i / 64 == 70) {
        REQUIRE(std::isnan(widen(found.out[i])));
      } else {
        REQUIRE(found.out[i].bits == whole.out[i].bits);
      }
    }
  }
}
