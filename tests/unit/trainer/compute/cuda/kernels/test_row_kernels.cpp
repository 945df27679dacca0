// SPDX-License-Identifier: Apache-2.0
// LayerNorm, RMSNorm, embedding and column sum kernels on the fake GPU, against the CPU's in double.
#include "compute/cuda/kernels/embedding.cuh"
#include "compute/cuda/kernels/launch_sizes.hpp"
#include "compute/cuda/kernels/layer_norm.cuh"
#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;
using namespace muster::compute::cuda;
using CpuDouble = muster::compute::cpu::CpuCompute<double>;

// The host's launch geometry must match the kernels'.
static_assert(sizes::norm_threads == norm_threads);
static_assert(sizes::norm_warps == norm_warps);
static_assert(sizes::column_threads == column_threads);
static_assert(sizes::norm_columns == piece_columns && sizes::widest_row == norm_pieces * piece_columns);
static_assert(sizes::column_bytes == column_sums_bytes);

namespace {

unsigned groups(std::size_t count, std::size_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

CpuDouble cpu() { return CpuDouble({1, false, nullptr}); }

struct Norm {
  std::vector<float> sum;
  std::vector<Bf16> out;
  std::vector<float> mean, rstd;
};
Norm normalize(int rows, int width, const std::vector<float>& x, const std::vector<Bf16>& addend,
               const std::vector<Bf16>& gain, const std::vector<Bf16>& bias) {
  Norm norm{x, std::vector<Bf16>(x.size()), std::vector<float>(static_cast<std::size_t>(rows)), {}};
  norm.rstd = norm.mean;
  run(muster_layer_norm, {{groups(static_cast<std::size_t>(rows), norm_warps)}, norm_threads}, rows, width,
      x.data(), addend.empty() ? nullptr : addend.data(), norm.sum, gain.data(), bias.data(), norm.out,
      norm.mean, norm.rstd);
  return norm;
}

struct NormGradient {
  std::vector<float> d_x;
  std::vector<Bf16> rounded;
  std::vector<float> d_gain, d_bias;
};
NormGradient normalize_backward(int rows, int width, const std::vector<Bf16>& gain, const Norm& norm,
                                const std::vector<Bf16>& d_out, const std::vector<float>& d_x,
                                unsigned blocks, bool reverse_order) {
  const auto size = static_cast<std::size_t>(width);
  NormGradient result{d_x, std::vector<Bf16>(d_x.size()), std::vector<float>(size), std::vector<float>(size)};
  std::vector<float> partial(blocks * 2 * size);
  run(muster_layer_norm_backward, {{blocks}, norm_threads, sizes::norm_backward_bytes(width), reverse_order},
      rows, width, norm.sum.data(), gain.data(), norm.mean.data(), norm.rstd.data(), d_out.data(), result.d_x,
      result.rounded, partial);
  run(muster_sum_parts, {{groups(2 * size, 32)}, column_threads, column_sums_bytes, reverse_order}, blocks,
      2 * width, width, partial.data(), result.d_gain, result.d_bias);
  return result;
}

}  // namespace

TEST_CASE("all blocks of LayerNorm's backward pass run at a time on an H100, whatever the width",
          "[gpu kernels]") {
  // CUDA C++ Programming Guide, compute capability 9.0: 228 KiB of shared memory a multiprocessor, of which
  // CUDA takes 1 KiB for each block. __launch_bounds__ leaves registers for four blocks.
  constexpr std::size_t of_multiprocessor = 228 << 10, of_block = 1 << 10;
  for (int width = 8; width <= sizes::widest_row; width += 8) {
    CAPTURE(width);
    const int blocks = sizes::norm_backward_blocks(width);
    REQUIRE(blocks % sizes::h100_multiprocessors == 0);
    const auto each = static_cast<std::size_t>(blocks / sizes::h100_multiprocessors);
    const std::size_t bytes = sizes::norm_backward_bytes(width) + of_block;
    REQUIRE(each <= 4);
    REQUIRE(each * bytes <= of_multiprocessor);
    REQUIRE((each == 4 || (each + 1) * bytes > of_multiprocessor));
  }
}

TEST_CASE("LayerNorm with the sum before it agrees with the CPU's in double", "[gpu kernels]") {
  for (const int width : {64, 264, 1600, sizes::widest_row}) {
    CAPTURE(width);
    const int rows = 5;
    const std::size_t size = static_cast<std::size_t>(rows * width),
                      columns = static_cast<std::size_t>(width);
    const double spread = width == 64 ? 0.002 : 1;  // the smaller variance is about epsilon
    const auto x = random_floats(size, 1, spread);
    const auto addend = random_bf16(size, 2, spread);
    const auto gain = random_bf16(columns, 3), bias = random_bf16(columns, 4);
    const Norm norm = normalize(rows, width, x, addend, gain, bias);
    std::vector<double> sums;
    for (std::size_t i = 0; i < size; ++i) sums.push_back(exact(x[i]) + exact(addend[i]));
    CHECK(worst_ratio(norm.sum, sums, bounds(sums, 0x1p-24, 1e-30)) <= 1);
    const auto sum = exact(norm.sum), g = exact(gain), b = exact(bias);
    std::vector<double> out(size), mean(5), rstd(5);
    auto computer = cpu();
    computer.layer_norm(sum.data(), nullptr, nullptr, g.data(), b.data(), out.data(), mean.data(),
                        rstd.data(), rows, width);
    CHECK(worst_ratio(norm.out, out, bounds(out, half_unit, 2e-5)) <= 1);
    CHECK(worst_ratio(norm.mean, mean, bounds(mean, 1e-5, 1e-6)) < 1);
    CHECK(worst_ratio(norm.rstd, rstd, bounds(rstd, 1e-5, 0)) < 1);
    // Without an addend the kernel normalizes the row itself.
    CHECK(same_bits(normalize(rows, width, norm.sum, {}, gain, bias).out, norm.out));
  }
}

TEST_CASE(
    "gradients of LayerNorm agree with the CPU's in double and have the same bits in any order of threads",
    "[gpu kernels]") {
  for (const int width : {64, 264, sizes::widest_row}) {
    CAPTURE(width);
    const int rows = 23;
    const unsigned blocks = width == 64 ? 7 : 3;  // of 7 blocks, some warps have no row
    const std::size_t size = static_cast<std::size_t>(rows * width),
                      columns = static_cast<std::size_t>(width);
    const auto x = random_floats(size, 1), d_before = random_floats(size, 5);
    const auto d_out = random_bf16(size, 2);
    const auto gain = random_bf16(columns, 3), bias = random_bf16(columns, 4);
    const Norm norm = normalize(rows, width, x, {}, gain, bias);
    Norm saved = norm;
    saved.sum = x;
    const auto found = normalize_backward(rows, width, gain, saved, d_out, d_before, blocks, false);
    const auto values = exact(x), g = exact(gain), mean = exact(norm.mean), rstd = exact(norm.rstd),
               d = exact(d_out);
    auto d_x = exact(d_before);
    std::vector<double> d_gain(columns), d_bias(columns);
    auto computer = cpu();
    computer.layer_norm_backward(values.data(), g.data(), mean.data(), rstd.data(), d.data(), d_x.data(),
                                 nullptr, d_gain.data(), d_bias.data(), rows, width);
    CHECK(worst_ratio(found.d_x, d_x, bounds(d_x, 1e-6, 2e-5)) <= 1);
    for (std::size_t i = 0; i < size; ++i) REQUIRE(found.rounded[i].bits == narrow(found.d_x[i]).bits);
    CHECK(worst_ratio(found.d_gain, d_gain, bounds(d_gain, 1e-5, 1e-5)) < 1);
    CHECK(worst_ratio(found.d_bias, d_bias, bounds(d_bias, 1e-5, 1e-5)) < 1);
    if (width == sizes::widest_row) continue;  // ThreadSanitizer takes long for its many threads
    const auto again = normalize_backward(rows, width, gain, saved, d_out, d_before, blocks, true);
    CHECK(same_bits(again.d_x, found.d_x));
    CHECK(same_bits(again.d_gain, found.d_gain));
  }
}

TEST_CASE("RMSNorm and its gradients agree with the CPU's in double", "[gpu kernels]") {
  auto computer = cpu();
  for (const int width : {64, 264, sizes::widest_row}) {
    CAPTURE(width);
    const int rows = 23;
    const float epsilon = 1e-3F;
    const unsigned blocks = width == 64 ? 7 : 3;  // of 7 blocks, some warps have no row
    const auto columns = static_cast<std::size_t>(width);
    const auto x = random_floats(static_cast<std::size_t>(rows * width), 1),
               before = random_floats(x.size(), 5);
    const auto addend = random_bf16(x.size(), 2), gain = random_bf16(columns, 3),
               d_out = random_bf16(x.size(), 4);
    std::vector<float> sum(x.size()), rstd(rows);
    std::vector<Bf16> out(x.size()), rounded_d_x(x.size());
    run(muster_rms_norm, {{(rows + 3) / 4}, norm_threads}, rows, width, x.data(), addend.data(), sum,
        gain.data(), out, rstd, epsilon);
    const auto s = exact(sum), g = exact(gain), d = exact(d_out);
    std::vector<double> expected(x.size()), expected_rstd(rows), d_gain(columns);
    computer.llama()->rms_norm(s.data(), nullptr, nullptr, g.data(), expected.data(), expected_rstd.data(),
                               rows, width, double{epsilon});
    CHECK(worst_ratio(out, expected, bounds(expected, half_unit, 2e-5)) <= 1);
    CHECK(worst_ratio(rstd, expected_rstd, bounds(expected_rstd, 1e-5, 0)) < 1);

    std::vector<float> first;
    for (const bool reverse_order : {false, true}) {
      auto d_x = before;
      std::vector<float> partial(blocks * columns), found(columns);
      run(muster_rms_norm_backward,
          {{blocks}, norm_threads, sizes::norm_backward_bytes(width), reverse_order}, rows, width, sum.data(),
          gain.data(), rstd.data(), d_out.data(), d_x, rounded_d_x, partial);
      run(muster_sum_parts, {{(static_cast<unsigned>(width) + 31) / 32}, column_threads, column_sums_bytes},
          static_cast<int>(blocks), width, width, partial.data(), found, {});
      auto d_expected = exact(before);
      const auto r = exact(rstd);
      computer.llama()->rms_norm_backward(s.data(), g.data(), r.data(), d.data(), d_expected.data(), nullptr,
                                          d_gain.data(), rows, width);
      CHECK(worst_ratio(d_x, d_expected, bounds(d_expected, 1e-6, 1e-4)) <= 1);
      for (std::size_t i = 0; i < d_x.size(); ++i) REQUIRE(rounded_d_x[i].bits == narrow(d_x[i]).bits);
      CHECK(worst_ratio(found, d_gain, bounds(d_gain, 1e-5, 1e-4)) < 1);
      if (reverse_order) CHECK(same_bits(d_x, first));
      first = d_x;
    }
  }
}

TEST_CASE("column sums are right for any number of rows and parts", "[gpu kernels]") {
  for (const auto& [rows, width, parts] :
       {std::array{1, 8, 1}, std::array{37, 264, 2}, std::array{131, 40, 1}, std::array{300, 72, 29}}) {
    CAPTURE(rows, width, parts);
    const auto columns = static_cast<std::size_t>(width);
    const auto x = random_bf16(static_cast<std::size_t>(rows) * columns, 1);
    std::vector<float> partial(static_cast<std::size_t>(parts) * columns), out(columns);
    run(muster_column_parts,
        {{groups(columns, 256), static_cast<unsigned>(parts)}, column_threads, column_sums_bytes}, rows,
        width, x.data(), partial);
    run(muster_sum_parts, {{groups(columns, 32)}, column_threads, column_sums_bytes}, parts, width, width,
        partial.data(), out, {});
    std::vector<double> expected(columns);
    const auto values = exact(x);
    for (std::size_t i = 0; i < values.size(); ++i) expected[i % columns] += values[i];
    CHECK(worst_ratio(out, expected, bounds(expected, 1e-5, 1e-5)) < 1);
  }
}

TEST_CASE("embeddings and their gradients agree with the CPU's", "[gpu kernels]") {
  const int batch = 6, length = 11, width = 264, vocabulary = 9;
  const std::size_t rows = 66, columns = 264;
  std::vector<std::uint32_t> tokens(rows);
  for (std::size_t i = 0; i < rows; ++i) tokens[i] = static_cast<std::uint32_t>(i * i % 5 + (i == 5 ? 2 : 0));
  const auto table = random_bf16(vocabulary * columns, 1), positions = random_bf16(length * columns, 2);
  std::vector<float> out(rows * columns);
  run(muster_embed, {{groups(rows * columns / 8, 256)}, 256}, rows, length, width, tokens.data(),
      table.data(), positions.data(), out);
  std::vector<double> expected(rows * columns);
  const auto t = exact(table), p = exact(positions);
  auto computer = cpu();
  computer.embed(tokens.data(), t.data(), p.data(), expected.data(), batch, length, width);
  CHECK(worst_ratio(out, expected, bounds(expected, 0x1p-24, 1e-30)) <= 1);

  std::vector<std::uint32_t> distinct;
  std::vector<std::uint32_t> begins{0}, order;
  for (std::uint32_t token = 0; token < vocabulary; ++token) {
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (tokens[row] == token) order.push_back(row);
    }
    if (order.size() == begins.back()) continue;
    distinct.push_back(token);
    begins.push_back(static_cast<std::uint32_t>(order.size()));
  }
  auto d_table = random_floats(vocabulary * columns, 3);
  std::vector<float> d_positions(length * columns);
  auto d_table_expected = exact(d_table), d_positions_expected = exact(d_positions);
  const auto d = exact(out);
  computer.embed_backward(tokens.data(), d.data(), d_table_expected.data(), d_positions_expected.data(),
                          batch, length, length, width);
  run(muster_embed_tokens_backward,
      {{static_cast<unsigned>(distinct.size()), groups(columns, 256)}, column_threads, column_sums_bytes},
      width, distinct.data(), begins.data(), order.data(), out.data(), d_table);
  run(muster_embed_positions_backward, {{groups(length * columns / 8, 256)}, 256}, batch, length, width,
      out.data(), d_positions);
  CHECK(worst_ratio(d_table, d_table_expected, bounds(d_table_expected, 1e-5, 1e-5)) < 1);
  CHECK(worst_ratio(d_positions, d_positions_expected, bounds(d_positions_expected, 1e-5, 1e-5)) < 1);
}

TEST_CASE("tokens of four bytes are embedded", "[gpu kernels]") {
  const int width = 8;
  const std::vector<std::uint32_t> tokens{66000, 3, 65536};
  const auto table = random_bf16(66001 * std::size_t{width}, 1);
  std::vector<float> out(tokens.size() * width);
  run(muster_embed, {{1}, 256}, 3, 3, width, tokens.data(), table.data(), static_cast<const Bf16*>(nullptr),
      out);
  for (std::size_t i = 0; i < out.size(); ++i)
    CHECK(out[i] == widen(table[tokens[i / width] * width + i % width]));
}
