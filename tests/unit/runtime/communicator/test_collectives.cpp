// SPDX-License-Identifier: Apache-2.0
// Every collective, type and reduction of a host communicator against a plain reference, on as many ranks as
// the launcher started.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "catch.hpp"
#include "reference.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;
using namespace reference;

TEMPLATE_TEST_CASE("reductions equal a plain reference", "", float, double, bfloat16, half, std::int8_t,
                   std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using T = TestType;
  auto world = tested_world();
  for (Reduction op : all_reductions) {
    for (std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{1000}, std::size_t{70001}}) {
      INFO("count " << count << ", reduction " << static_cast<int>(op));
      auto const own = operands<T>(world.rank(), count, op);
      auto const expected = reduced<T>(world.size(), count, op);
      auto buffer = own;
      world.all_reduce(std::span<T>(buffer), op);
      REQUIRE(same_numbers(buffer, expected));
      std::vector<T> elsewhere(count);
      world.all_reduce(std::span<const T>(own), std::span<T>(elsewhere), op);
      REQUIRE(same_numbers(elsewhere, expected));
      int const root = static_cast<int>(count) % world.size();
      buffer = own;
      world.reduce(std::span<T>(buffer), root, op);
      REQUIRE(same_numbers(buffer, world.rank() == root ? expected : own));

      auto const ranks = static_cast<std::size_t>(world.size());
      auto all = operands<T>(world.rank(), count * ranks, op);
      std::vector<T> mine(count);
      world.reduce_scatter(std::span<const T>(all), std::span<T>(mine), op);
      auto const whole = reduced<T>(world.size(), count * ranks, op);
      auto const begin = whole.begin() + static_cast<std::ptrdiff_t>(count) * world.rank();
      REQUIRE(same_numbers(mine, std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(count))));
      auto const share = std::span<T>(all).subspan(count * static_cast<std::size_t>(world.rank()), count);
      world.reduce_scatter(std::span<const T>(all), share, op);
      REQUIRE(same_bits(std::vector<T>(share.begin(), share.end()), mine));
    }
  }
}

// Ranks that do not want the result are ahead of the root.
TEST_CASE("reduces in a row do not mix their data") {
  auto world = tested_world();
  int const root = world.size() - 1;
  auto const ranks = static_cast<std::int64_t>(world.size());
  for (std::int64_t i = 1; i <= 60; ++i) {
    std::vector<std::int64_t> values(i % 3 == 0 ? 100'000 : 5'000, i * (world.rank() + 1));
    world.reduce(values, root);
    auto const expected = world.rank() == root ? i * ranks * (ranks + 1) / 2 : i * (world.rank() + 1);
    REQUIRE(std::ranges::count(values, expected) == static_cast<std::ptrdiff_t>(values.size()));
  }
}

TEMPLATE_TEST_CASE("premul_sum multiplies each rank's input by its own factor", "", float, double, bfloat16,
                   half) {
  using T = TestType;
  auto world = tested_world();
  auto const op = premul_sum(1 + world.rank());
  for (std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{70001}}) {
    INFO("count " << count);
    auto const own = numbers<T>(world.rank(), count);
    auto const expected = premul_summed<T>(world.size(), count);
    auto buffer = own;
    world.all_reduce(buffer, op);
    REQUIRE(same_numbers(buffer, expected));
    std::vector<T> elsewhere(count);
    world.all_reduce(own, elsewhere, op);
    REQUIRE(same_numbers(elsewhere, expected));
    int const root = static_cast<int>(count) % world.size();
    buffer = own;
    world.reduce(buffer, root, op);
    REQUIRE(same_numbers(buffer, world.rank() == root ? expected : own));

    auto const ranks = static_cast<std::size_t>(world.size());
    auto all = numbers<T>(world.rank(), count * ranks);
    auto const before = all;
    std::vector<T> mine(count);
    world.reduce_scatter(all, mine, op);
    REQUIRE(same_bits(all, before));
    auto const whole = premul_summed<T>(world.size(), count * ranks);
    auto const begin = whole.begin() + static_cast<std::ptrdiff_t>(count) * world.rank();
    REQUIRE(same_numbers(mine, std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(count))));
  }
}

TEST_CASE("a premul_sum's factor and its products are rounded to the element type") {
  auto world = tested_world();
  bool const is_first = world.rank() == 0;
  // 1.003 is 1 in bfloat16; otherwise the product would be 2. 1.0078125 * 1.0078125 is rounded to 1.015625.
  bfloat16 factor(is_first ? 1.9921875f : 0.0f);
  world.all_reduce(factor, premul_sum(1.003));
  CHECK(static_cast<float>(factor) == 1.9921875f);
  bfloat16 product(is_first ? 1.0078125f : 0.0f);
  world.all_reduce(product, premul_sum(1.0078125));
  CHECK(static_cast<float>(product) == 1.015625f);
  float third = is_first ? 3.0f : 0.0f;
  world.all_reduce(third, premul_sum(1.0 / 3));
  CHECK(third == 3.0f * static_cast<float>(1.0 / 3));
}

TEMPLATE_TEST_CASE("copies carry every bit", "", float, double, bfloat16, half, std::int8_t, std::uint8_t,
                   std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using T = TestType;
  auto world = tested_world();
  for (std::size_t count : {std::size_t{1}, std::size_t{513}, std::size_t{1200000}}) {
    INFO("count " << count);
    for (int root = 0; root < world.size(); ++root) {
      auto buffer = numbers<T>(world.rank(), count);
      world.broadcast(std::span<T>(buffer), root);
      REQUIRE(same_bits(buffer, numbers<T>(root, count)));
    }
    auto const mine = numbers<T>(world.rank(), count);
    std::vector<T> all(count * static_cast<std::size_t>(world.size()));
    world.all_gather(std::span<const T>(mine), std::span<T>(all));
    std::vector<T> expected;
    for (int r = 0; r < world.size(); ++r) {
      auto const part = numbers<T>(r, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    REQUIRE(same_bits(all, expected));
    auto const share = std::span<T>(all).subspan(count * static_cast<std::size_t>(world.rank()), count);
    world.all_gather(std::span<const T>(share), std::span<T>(all));
    REQUIRE(same_bits(all, expected));
  }
}

TEMPLATE_TEST_CASE("shares of different lengths are gathered, some of them empty", "", float, bfloat16,
                   std::uint8_t, std::int64_t) {
  using T = TestType;
  auto world = tested_world();
  for (std::size_t unit : {std::size_t{1}, std::size_t{40000}}) {
    std::vector<std::size_t> counts;
    std::vector<T> expected;
    for (int r = 0; r < world.size(); ++r) {
      counts.push_back(static_cast<std::size_t>((r + 1) % 3) * unit);
      auto const part = numbers<T>(r, counts.back());
      expected.insert(expected.end(), part.begin(), part.end());
    }
    auto const own = static_cast<std::size_t>(world.rank());
    auto const mine = numbers<T>(world.rank(), counts[own]);
    std::vector<T> all(expected.size());
    world.all_gather_v(std::span<const T>(mine), std::span<T>(all), std::span<const std::size_t>(counts));
    REQUIRE(same_bits(all, expected));
    auto const begin = std::accumulate(counts.begin(), counts.begin() + world.rank(), std::size_t{0});
    auto const share = std::span<T>(all).subspan(begin, counts[own]);
    world.all_gather_v(std::span<const T>(share), std::span<T>(all), std::span<const std::size_t>(counts));
    REQUIRE(same_bits(all, expected));
  }
}

TEMPLATE_TEST_CASE("shares of different lengths are reduced and scattered, some of them empty", "", float,
                   bfloat16, std::uint8_t, std::int64_t) {
  using T = TestType;
  auto world = tested_world();
  for (std::size_t unit : {std::size_t{1}, std::size_t{400000}}) {
    std::vector<std::size_t> counts;
    for (int r = 0; r < world.size(); ++r) counts.push_back(static_cast<std::size_t>((r + 1) % 3) * unit);
    auto const total = std::reduce(counts.begin(), counts.end());
    auto const begin = std::reduce(counts.begin(), counts.begin() + world.rank());
    auto const own = counts[static_cast<std::size_t>(world.rank())];
    for (Reduction op : {Reduction::sum, Reduction::average, Reduction::max}) {
      auto all = operands<T>(world.rank(), total, op);
      auto const whole = reduced<T>(world.size(), total, op);
      auto const part = std::span(whole).subspan(begin, own);
      std::vector<T> const expected(part.begin(), part.end());
      std::vector<T> mine(own);
      world.reduce_scatter_v(all, mine, counts, op);
      REQUIRE(same_numbers(mine, expected));
      auto const share = std::span(all).subspan(begin, own);
      world.reduce_scatter_v(all, share, counts, op);
      REQUIRE(same_numbers(std::vector<T>(share.begin(), share.end()), expected));
    }
  }
}

TEMPLATE_TEST_CASE("slices of different lengths reach every rank, some of them empty", "", float, half,
                   std::int8_t, double) {
  using T = TestType;
  auto world = tested_world();
  auto const ranks = static_cast<std::size_t>(world.size());
  auto const length = [](std::size_t from, std::size_t to, std::size_t unit) {
    return (2 * from + to) % 4 * unit;
  };
  for (std::size_t unit : {std::size_t{1}, std::size_t{100000}}) {
    auto const own = static_cast<std::size_t>(world.rank());
    std::vector<std::size_t> send_counts, recv_counts;
    std::vector<T> expected;
    for (std::size_t r = 0; r < ranks; ++r) {
      send_counts.push_back(length(own, r, unit));
      recv_counts.push_back(length(r, own, unit));
      std::size_t begin = 0, total = 0;
      for (std::size_t to = 0; to < ranks; ++to) {
        if (to < own) begin += length(r, to, unit);
        total += length(r, to, unit);
      }
      auto const theirs = numbers<T>(static_cast<int>(r), total);
      auto const slice = theirs.begin() + static_cast<std::ptrdiff_t>(begin);
      expected.insert(expected.end(), slice, slice + static_cast<std::ptrdiff_t>(recv_counts.back()));
    }
    auto const in = numbers<T>(world.rank(), std::reduce(send_counts.begin(), send_counts.end()));
    std::vector<T> out(expected.size());
    world.all_to_all_v(in, out, send_counts, recv_counts);
    REQUIRE(same_bits(out, expected));
  }
}

TEST_CASE("in an all_to_all_v a rank may have nothing to send, and the last one nothing at all") {
  auto world = tested_world();
  auto const ranks = static_cast<std::size_t>(world.size());
  // Rank 0 sends its number plus 7 to every rank but the last one.
  std::vector<std::size_t> send_counts(ranks), recv_counts(ranks);
  bool const is_last = world.rank() + 1 == world.size();
  if (world.rank() == 0) std::fill(send_counts.begin(), send_counts.end() - 1, 1);
  if (!is_last) recv_counts[0] = 1;
  std::vector<std::int32_t> const in(world.rank() == 0 ? ranks - 1 : 0, 7);
  std::vector<std::int32_t> out(is_last ? 0 : 1);
  world.all_to_all_v(in, out, send_counts, recv_counts);
  REQUIRE(out == std::vector<std::int32_t>(out.size(), 7));
}

TEMPLATE_TEST_CASE("every rank's slices reach every rank", "", float, half, std::int8_t, double) {
  using T = TestType;
  auto world = tested_world();
  auto const ranks = static_cast<std::size_t>(world.size());
  for (std::size_t count : {std::size_t{1}, std::size_t{77}, std::size_t{300000}}) {
    auto const in = numbers<T>(world.rank(), count * ranks);
    std::vector<T> out(in.size());
    world.all_to_all(std::span<const T>(in), std::span<T>(out));
    std::vector<T> expected;
    for (int r = 0; r < world.size(); ++r) {
      auto const theirs = numbers<T>(r, count * ranks);
      auto const begin = theirs.begin() + static_cast<std::ptrdiff_t>(count) * world.rank();
      expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    }
    REQUIRE(same_bits(out, expected));
  }
}

TEST_CASE("a long all-reduce, in several pieces, is the same on every rank to the bit") {
  auto world = tested_world();
  std::size_t const count = 3 * (1u << 20) + 5;
  std::mt19937 random(static_cast<unsigned>(world.rank()));
  std::normal_distribution<float> normal;
  std::vector<float> buffer(count);
  for (auto& value : buffer) value = normal(random);
  world.all_reduce(std::span<float>(buffer), Reduction::average);
  auto from_rank_0 = buffer;
  world.broadcast(std::span<float>(from_rank_0), 0);
  REQUIRE(same_bits(buffer, from_rank_0));

  std::vector<double> sum(count, 0.0);
  for (int r = 0; r < world.size(); ++r) {
    std::mt19937 theirs(static_cast<unsigned>(r));
    std::normal_distribution<float> draw;
    for (auto& value : sum) value += static_cast<double>(draw(theirs));
  }
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i)
    worst = std::max(worst, std::abs(static_cast<double>(buffer[i]) - sum[i] / world.size()));
  REQUIRE(worst < 1e-6);
}

TEST_CASE("16-bit floats round once per step") {
  auto world = tested_world();
  // 256 + 1 is not representable in bfloat16: each addition rounds it to 256, in any order.
  std::vector<bfloat16> buffer(10, world.rank() == 0 ? bfloat16(256.0f) : bfloat16(0.0f));
  world.all_reduce(std::span<bfloat16>(buffer));
  for (auto value : buffer) REQUIRE(static_cast<float>(value) == 256.0f);
  std::vector<half> infinite(3, half(65504.0f));
  world.all_reduce(std::span<half>(infinite));
  if (world.size() > 1) REQUIRE(std::isinf(static_cast<float>(infinite[0])));
}
