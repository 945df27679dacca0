// SPDX-License-Identifier: Apache-2.0
// Attention in bfloat16 against its definition in double, with the products of every instruction set.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "compute/cpu/cpu_compute.hpp"
#include "muster/philox.hpp"

namespace {

using muster::bfloat16;
using muster::compute::AttentionShape;
using muster::compute::cpu::CpuCompute;

/// Numbers that bfloat16 holds exactly.
std::vector<double> rounded_numbers(std::size_t count, std::uint64_t stream) {
  std::vector<double> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = double{float(bfloat16(static_cast<float>(muster::normal(1, stream, i))))};
  return out;
}

/// What a call reads, and what both directions give.
template <typename Real>
struct Attention {
  std::vector<Real> out, d_qkv;
  std::vector<muster::compute::Accurate<Real>> log_sum;

  Attention(const AttentionShape& s, CpuCompute<Real>& compute, const std::vector<double>& inputs,
            const std::vector<double>& d_outputs)
      : out(d_outputs.size()),
        d_qkv(inputs.size()),
        log_sum(static_cast<std::size_t>(s.batch) * static_cast<std::size_t>(s.heads * s.length)) {
    std::vector<Real> qkv, d_out;
    for (const double x : inputs) qkv.push_back(Real(static_cast<float>(x)));
    for (const double x : d_outputs) d_out.push_back(Real(static_cast<float>(x)));
    compute.attention(s, qkv.data(), out.data(), log_sum.data());
    compute.attention_backward(s, qkv.data(), out.data(), log_sum.data(), d_out.data(), d_qkv.data());
  }
};

std::vector<double> in_double(const std::vector<bfloat16>& values) {
  std::vector<double> out;
  for (const bfloat16 x : values) out.push_back(double{float(x)});
  return out;
}

/// Relative L2 distance of columns [first, last) of rows of `width`.
double columns_error(const std::vector<double>& computed, const std::vector<double>& exact, std::size_t width,
                     std::size_t first, std::size_t last) {
  double difference = 0, size = 0;
  for (std::size_t row = 0; row < exact.size(); row += width) {
    for (std::size_t i = row + first; i < row + last; ++i) {
      difference += (computed[i] - exact[i]) * (computed[i] - exact[i]);
      size += exact[i] * exact[i];
    }
  }
  return std::sqrt(difference / size);
}

}  // namespace

TEST_CASE("attention in bfloat16 is as exact as its operands, at odd lengths and all head widths",
          "[attention]") {
  const char* set = GENERATE("baseline", "avx2", "avx512", "avx512_bf16");
  const auto* kernels = muster::compute::cpu::find_kernels<bfloat16>(set);
  if (!kernels) return;
  const int head_width = GENERATE(6, 7, 16, 32, 64, 80, 96, 128);
  const int length = GENERATE(1, 2, 63, 64, 65, 131);
  const int kv_heads = GENERATE(0, 2);  // a head of keys and values for each head, or for two heads
  const int heads = 4;
  const AttentionShape s{2, length, heads, heads * head_width, kv_heads};
  CAPTURE(set, head_width, length, kv_heads);
  const auto rows = static_cast<std::size_t>(s.batch * length), width = static_cast<std::size_t>(s.width),
             qkv_width = static_cast<std::size_t>(s.qkv_width());
  const auto qkv = rounded_numbers(rows * qkv_width, 1), d_out = rounded_numbers(rows * width, 2);
  CpuCompute<double> exact_compute({1, false, nullptr});
  CpuCompute<bfloat16> compute({1, false, kernels}), three_threads({3, false, kernels});
  const Attention<double> exact(s, exact_compute, qkv, d_out);
  const Attention<bfloat16> one(s, compute, qkv, d_out), three(s, three_threads, qkv, d_out);
  // An element is rounded by at most 2^-9 of its size, its probabilities and their gradients likewise. The
  // gradients of queries and keys also have the rounding of the output.
  constexpr double rounding = 0x1p-9;
  CHECK(columns_error(in_double(one.out), exact.out, width, 0, width) < 1.5 * rounding);
  const auto gradients = in_double(one.d_qkv);
  const std::size_t kv_width = (qkv_width - width) / 2;
  if (length > 1) {  // else queries and keys have no gradients
    // With two keys, the gradients are small differences of what the rounded output takes part in.
    const double bound = (length == 2 ? 4 : 2) * rounding;
    CHECK(columns_error(gradients, exact.d_qkv, qkv_width, 0, width) < bound);
    CHECK(columns_error(gradients, exact.d_qkv, qkv_width, width, width + kv_width) < bound);
  }
  CHECK(columns_error(gradients, exact.d_qkv, qkv_width, width + kv_width, qkv_width) < 1.5 * rounding);
  for (std::size_t i = 0; i < exact.log_sum.size(); ++i)
    CHECK(double{one.log_sum[i]} == Approx(exact.log_sum[i]).epsilon(1e-5).margin(1e-5));
  const auto same = [](bfloat16 x, bfloat16 y) { return x.bits == y.bits; };
  CHECK(std::equal(one.out.begin(), one.out.end(), three.out.begin(), same));
  CHECK(std::equal(one.d_qkv.begin(), one.d_qkv.end(), three.d_qkv.begin(), same));
}

TEST_CASE("attention in bfloat16 stays finite for large scores and shows NaN", "[attention]") {
  const char* set = GENERATE("baseline", "avx2", "avx512", "avx512_bf16");
  const auto* kernels = muster::compute::cpu::find_kernels<bfloat16>(set);
  if (!kernels) return;
  CAPTURE(set);
  const AttentionShape s{1, 70, 1, 32, 0};
  CpuCompute<bfloat16> compute({1, false, kernels});
  auto qkv = rounded_numbers(static_cast<std::size_t>(s.length * s.qkv_width()), 1);
  const auto d_out = rounded_numbers(static_cast<std::size_t>(s.length * s.width), 2);
  for (double& x : qkv) x *= 256;
  const Attention<bfloat16> large(s, compute, qkv, d_out);
  for (const bfloat16 x : large.out) CHECK(std::isfinite(float(x)));
  for (const bfloat16 x : large.d_qkv) CHECK(std::isfinite(float(x)));
  qkv[3] = std::numeric_limits<double>::quiet_NaN();  // the first query
  const Attention<bfloat16> bad(s, compute, qkv, d_out);
  CHECK(std::isnan(float(bad.out[0])));
  CHECK(std::isnan(float(bad.d_qkv[0])));
}
